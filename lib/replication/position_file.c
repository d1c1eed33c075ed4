/* position_file: two places in one small file, written in turn. */
#include "position_file.h"
#include "file_io.h"
#include "le64.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A place is a block of its own on any disk. It begins with the record: mark (8), sequence (8), n (8), whole_from (8), active (8), history, chain, salts,
 * holder, and SHA-256 over all of these. */
enum {
    PLACES = 2,
    PLACE_BYTES = 4096,
    RECORD_MAX_BYTES = 256,
};
static const char mark[8] = "GRAPNELP";

static char *path_of(const char *db_path)
{
    return gr_printf("%s-position", db_path);
}

static void put_record(struct buf *out, const struct stored_position *p,
                       uint64_t sequence)
{
    uint8_t sum[SHA256_BYTES];

    buf_put(out, mark, sizeof mark);
    put_le64(out, sequence);
    put_le64(out, (uint64_t)p->at.n);
    put_le64(out, (uint64_t)p->whole_from);
    put_le64(out, p->active);
    buf_put(out, p->at.history, sizeof p->at.history);
    buf_put(out, p->at.chain, sizeof p->at.chain);
    buf_put(out, p->salts, sizeof p->salts);
    buf_put(out, p->holder, sizeof p->holder);
    sha256((struct bytes){out->data, out->len}, sum);
    buf_put(out, sum, sizeof sum);
}

static const uint8_t *take(const uint8_t *p, void *to, size_t n)
{
    memcpy(to, p, n);
    return p + n;
}

/* 0: there is no valid record. */
static uint64_t get_record(const uint8_t *bytes, struct stored_position *out)
{
    struct stored_position p = {0};
    uint64_t sequence = get_le64(bytes + 8), active = get_le64(bytes + 32);
    const uint8_t *at = bytes + 40;
    struct buf again;
    bool good;

    p.at.n = (int64_t)get_le64(bytes + 16);
    p.whole_from = (int64_t)get_le64(bytes + 24);
    p.active = active == 1;
    at = take(at, p.at.history, sizeof p.at.history);
    at = take(at, p.at.chain, sizeof p.at.chain);
    at = take(at, p.salts, sizeof p.salts);
    take(at, p.holder, sizeof p.holder);
    buf_init(&again, RECORD_MAX_BYTES);
    put_record(&again, &p, sequence);
    good = sequence && active <= 1 && p.at.n >= 0 &&
           memcmp(again.data, bytes, again.len) == 0;
    buf_fini(&again);
    if (good)
        *out = p;
    return good ? sequence : 0;
}

/* The sequence of the newest record; 0: there is none. */
static uint64_t newest(int fd, struct stored_position *out)
{
    uint64_t best = 0;

    for (int i = 0; i < PLACES; i++) {
        uint8_t bytes[RECORD_MAX_BYTES];
        struct stored_position p;
        uint64_t sequence;

        if (file_read_at(fd, bytes, sizeof bytes, (int64_t)i * PLACE_BYTES) !=
            (int64_t)sizeof bytes)
            continue;
        sequence = get_record(bytes, &p);
        if (sequence > best) {
            best = sequence;
            *out = p;
        }
    }
    return best;
}

bool position_file_read(const char *db_path, struct stored_position *out)
{
    char *path = path_of(db_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;

    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        die(EXIT_STORAGE, "%s: %s", path, strerror(errno));
    free(path);
    if (fd >= 0) {
        found = newest(fd, out) > 0;
        close(fd);
    }
    return found;
}

/* Gives both places their blocks, so that a later write needs no space. */
static gr_rc allocate(const char *path, int fd)
{
    static const char zeros[PLACES * PLACE_BYTES];
    struct stat st;

    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof zeros)
        return GR_OK;
    return file_write_at(path, fd, zeros, sizeof zeros, 0);
}

static gr_rc write_record(const char *path, int fd,
                          const struct stored_position *p)
{
    struct stored_position old;
    uint64_t sequence = newest(fd, &old) + 1;
    struct buf record;
    gr_rc rc = sequence > 1 ? GR_OK : allocate(path, fd);

    buf_init(&record, RECORD_MAX_BYTES);
    put_record(&record, p, sequence);
    if (rc == GR_OK)
        rc = file_write_at(path, fd, record.data, record.len,
                           (int64_t)(sequence % PLACES) * PLACE_BYTES);
    buf_fini(&record);
    if (rc == GR_OK)
        file_sync(path, fd);
    if (rc == GR_OK && sequence == 1)
        folder_sync(path);
    return rc;
}

gr_rc position_file_write(const char *db_path, const struct stored_position *p)
{
    char *path = path_of(db_path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    gr_rc rc = GR_AGAIN;

    if (fd >= 0)
        rc = write_record(path, fd, p);
    else if (!file_is_full(errno))
        die(EXIT_STORAGE, "%s: cannot be opened: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

void position_file_remove(const char *db_path)
{
    char *path = path_of(db_path);

    unlink(path);
    free(path);
}
