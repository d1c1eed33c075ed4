/* wal_damage: walks the frames of a write-ahead log to find a damaged one. */
#include "wal_damage.h"
#include "log.h"
#include "wal_file.h"
#include <string.h>

enum {
    DB_PAGE_SIZE_AT =
        16 /* the page size in a database's header has two bytes; 1 means
                             * 65536 */
};

static uint32_t page_bytes_of(const char *db_path)
{
    FILE *file = fopen(db_path, "rbe");
    uint8_t head[DB_PAGE_SIZE_AT + 2];
    uint32_t n = 0;

    if (file && fread(head, sizeof head, 1, file) == 1)
        n = (uint32_t)head[DB_PAGE_SIZE_AT] << 8 | head[DB_PAGE_SIZE_AT + 1];
    if (file)
        fclose(file);
    return n == 1 ? WAL_PAGE_MAX_BYTES : n;
}

/* Called at the first wrong frame, which was read. Each frame holds the checksum with which
 * the next one's begins, so a new chain can begin after any frame. */
static void count_behind(struct wal_file *w, struct wal_damage *out)
{
    bool ended = wal_file_is_commit(w);

    out->commits += ended;
    for (;;) {
        struct wal_sums before = wal_file_sums(w);

        if (!wal_file_read(w))
            return;
        if (!wal_file_is_valid(w, before))
            continue;
        out->frames++;
        out->certain |= ended;
        if (wal_file_is_commit(w)) {
            out->commits++;
            ended = true;
        }
    }
}

/* A wrong header makes the whole log void. Its frames still show which of them belong
 * together. Frames from before a restart of the log are there, too, but the header is one
 * sector, which is written completely or not at all. */
static void count_all(struct wal_file *w, const char *db_path,
                      struct wal_damage *out)
{
    w->page_bytes = page_bytes_of(db_path);
    w->big_endian = false;
    if (!wal_file_is_page_size(w->page_bytes) || !wal_file_read(w))
        return;
    memcpy(w->salts, w->frame + 8, WAL_SALTS_BYTES);
    count_behind(w, out);
    out->certain = out->frames > 0;
    out->frames += out->frames > 0; /* the first frame */
}

bool wal_damage_find(const char *db_path, struct wal_damage *out)
{
    bool good = false;
    struct wal_file *w = wal_file_open(db_path, &good);

    *out = (struct wal_damage){0};
    if (w && good) {
        for (out->frame = 1; wal_file_read(w); out->frame++) {
            if (!wal_file_is_valid(w, w->sums)) {
                count_behind(w, out);
                break;
            }
            w->sums = wal_file_sums(w);
        }
    } else if (w) {
        count_all(w, db_path, out);
    }
    wal_file_close(w);
    return out->frames > 0;
}

void wal_damage_warn(const char *db_path)
{
    struct wal_damage d;

    if (!wal_damage_find(db_path, &d))
        return;
    log_warn(
        NULL,
        d.certain
            ? "the write-ahead log is damaged; this database has lost the "
              "commits from that frame on. Other processes send again what "
              "they still have. Check the disk, then run `grapnel verify`"
            : "the last commit in the write-ahead log is incomplete: the power "
              "failed during the write, or the disk damaged it. Other "
              "processes send again what they still have",
        LS("file", db_path), LI("frame", d.frame), LI("frames_lost", d.frames),
        LI("commits_lost", d.commits));
}
