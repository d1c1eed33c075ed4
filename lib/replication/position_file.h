/* position_file: FILE-position beside a replicated database: which content the file has, and who writes it.
 *
 * It is written and synced before what it says is relied on. It has two places, written in turn, each with a checksum: a crash leaves the old position or
 * the new one, each whole. A file that is damaged counts as missing, and one damaged place leaves the position before: a standby that begins
 * at an older position applies the turns after it again, which is exact. */
#ifndef REPLICATION_POSITION_FILE_H
#define REPLICATION_POSITION_FILE_H

#include "engine.h"

struct stored_position {
    struct position at; /* a turn that was in the log */
    uint8_t salts
        [8]; /* of the write-ahead log that follows; zeros: none follows, or it is not known */
    uint8_t holder
        [HOLDER_BYTES]; /* the last start on this host that was the owner; zeros: none */
    /* An active has opened the file at `at` and may have committed more turns since: the file's own row tells which is its last. false: SQLite has not
     * written the file since it had `at`. */
    bool active;
    /* Turns up to this one may be partly in the file (a restored snapshot is such a mixture), so it is of use only when `at.n` is not below it. */
    int64_t whole_from;
};

/* false: there is none, or it is damaged. One that cannot be read ends the process (74). */
bool position_file_read(const char *db_path, struct stored_position *out);
/* Syncs the file, and its folder if the file is new. GR_AGAIN: the disk is full, and the old one is still there. Other errors end the process (74). */
GR_MUST_CHECK gr_rc position_file_write(const char *db_path,
                                        const struct stored_position *p);
/* Removes it; the folder is not synced. */
void position_file_remove(const char *db_path);

#endif
