/* position_file: FILE-position beside a replicated database: which content the file has, and which write-ahead log follows it.
 *
 * It is written and synced before what it says is relied on; a crash leaves the old one or the new one, each whole (rename, or one sector with a checksum).
 * A file that is damaged counts as missing: then the file's own row and the log decide, or a snapshot is taken. */
#ifndef REPLICATION_POSITION_FILE_H
#define REPLICATION_POSITION_FILE_H

#include "engine.h"

struct stored_position {
    struct position at;
    uint8_t salts[8]; /* of the write-ahead log that follows; zeros: none follows */
    uint8_t holder[HOLDER_BYTES]; /* the last start on this host that was the owner; zeros: none */
};

/* false: there is none, or it is damaged. */
bool position_file_read(const char *db_path, struct stored_position *out);
/* Syncs the file and its folder. GR_AGAIN: the disk is full, and the old one is still there. Other errors end the process (74). */
GR_MUST_CHECK gr_rc position_file_write(const char *db_path,
                                        const struct stored_position *p);

#endif
