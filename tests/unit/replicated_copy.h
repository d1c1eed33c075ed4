/* replicated_copy: makes a database file of the turns in an engine's log, and compares it, byte by byte, with the file of the active. */
#ifndef REPLICATED_COPY_H
#define REPLICATED_COPY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "seal.h"
#include "shared_engine.h"
#include "turn.h"
#include "wal_file.h"
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#define COPY_PROCESS "ingress-1"
static const uint8_t copy_key[SEAL_KEY_BYTES] = {3, 1, 4};

GR_PRINTF(1, 2) static void copy_sh(const char *fmt, ...)
{
    char command[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

/* The form of turn n. */
static void copy_form(struct engine *s, struct sealer *sealer, int64_t n,
                      struct buf *form)
{
    struct seal_about about = {.kind = SEAL_TURN,
                               .process = COPY_PROCESS,
                               .epoch = s->e.rows[n].epoch,
                               .n = n};
    struct bytes parts[SHARED_PARTS_MAX];
    size_t at = s->turns[n].at;
    char why[200];

    memcpy(about.history, s->history, HISTORY_BYTES);
    for (size_t i = 0; i < s->turns[n].count; i++) {
        parts[i] = (struct bytes){s->arena + at, s->turns[n].lens[i]};
        at += parts[i].n;
    }
    assert_int_equal(
        sealer_open_parts(sealer, &about, parts, s->turns[n].count, form, why),
        GR_OK);
}

static void copy_apply(int fd, struct bytes form)
{
    struct turn_head head;

    assert_int_equal(turn_read(form, &head), GR_OK);
    for (uint32_t i = 0; i < head.page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page(form, &head, i, &page);

        assert_int_equal(pwrite(fd, image, head.page_bytes,
                                (off_t)(page - 1) * head.page_bytes),
                         head.page_bytes);
    }
    assert_int_equal(ftruncate(fd, (off_t)head.size_pages * head.page_bytes),
                     0);
}

/* Makes `path` from turns 1 to n, and checks their chain. */
static void copy_make(struct engine *s, int64_t n, const char *path)
{
    struct sealer *sealer = sealer_open(copy_key);
    struct position at = {0};
    struct buf form;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    memcpy(at.history, s->history, HISTORY_BYTES);
    buf_init(&form, 256 * 1024 * 1024);
    for (int64_t i = 1; i <= n; i++) {
        buf_reset(&form);
        copy_form(s, sealer, i, &form);
        copy_apply(fd, (struct bytes){form.data, form.len});
        position_next(&at, (struct bytes){form.data, form.len});
        assert_int_equal(at.n, i);
        assert_memory_equal(at.chain, s->e.rows[i].chain, CHAIN_BYTES);
    }
    buf_fini(&form);
    close(fd);
    sealer_close(sealer);
}

/* What SQLite makes of a file and its write-ahead log, as one file `path`, with `wal_bytes` of the log. */
static void copy_settle(const char *file, const char *path, off_t wal_bytes)
{
    char wal[200], to[200];
    sqlite3 *h;

    snprintf(wal, sizeof wal, "%s-wal", file);
    snprintf(to, sizeof to, "%s-wal", path);
    unlink(to);
    copy_sh("cp %s %s", file, path);
    if (wal_bytes) {
        copy_sh("cp %s %s", wal, to);
        assert_int_equal(truncate(to, wal_bytes), 0);
    }
    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h,
                                  "SELECT 1 FROM sqlite_schema; "
                                  "PRAGMA wal_checkpoint(TRUNCATE)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(h);
}

static bool copy_same_bytes(const char *a, const char *b)
{
    char command[500];

    snprintf(command, sizeof command, "cmp -s %s %s", a, b);
    return system(command) == 0;
}

static off_t copy_wal_bytes(const char *file)
{
    char wal[200];
    struct stat st;

    snprintf(wal, sizeof wal, "%s-wal", file);
    return stat(wal, &st) == 0 ? st.st_size : 0;
}

/* The file of the active has exactly the turns up to n. */
static void copy_is_equal(struct engine *s, const char *file, int64_t n,
                          const char *dir)
{
    char ours[200], theirs[200];

    snprintf(ours, sizeof ours, "%s/ours", dir);
    snprintf(theirs, sizeof theirs, "%s/theirs", dir);
    copy_make(s, n, theirs);
    copy_settle(file, ours, copy_wal_bytes(file));
    assert_true(copy_same_bytes(ours, theirs));
}

/* The file alone, without its write-ahead log, has exactly the turns up to n. */
static bool copy_file_is_at(struct engine *s, const char *file, int64_t n,
                            const char *dir)
{
    char ours[200], theirs[200];

    snprintf(ours, sizeof ours, "%s/ours", dir);
    snprintf(theirs, sizeof theirs, "%s/theirs", dir);
    copy_make(s, n, theirs);
    copy_settle(file, ours, 0);
    return copy_same_bytes(ours, theirs);
}

/* Where the last commit of the log begins: the end of the one before it. 0: there is no log, or it has no commit. */
static off_t copy_before_last(const char *file)
{
    bool good;
    struct wal_file *w = wal_file_open(file, &good);
    off_t at = WAL_HEADER_BYTES, last = 0, before = 0;

    while (w && good && wal_file_read(w) && wal_file_is_valid(w, w->sums)) {
        at += (off_t)wal_file_frame_bytes(w);
        w->sums = wal_file_sums(w);
        if (wal_file_is_commit(w)) {
            before = last;
            last = at;
        }
    }
    wal_file_close(w);
    return before;
}

/* After a kill: whether the file has one turn that the log, which ends with n, lacks. It has no more than that. */
static bool copy_has_one_more(struct engine *s, const char *file, int64_t n,
                              const char *dir)
{
    char ours[200], theirs[200];
    bool first = n == 0 || s->e.rows[n].epoch != s->e.durable.epoch;

    snprintf(ours, sizeof ours, "%s/ours", dir);
    snprintf(theirs, sizeof theirs, "%s/theirs", dir);
    if (access(file, F_OK) != 0)
        return false;
    copy_make(s, n, theirs);
    copy_settle(file, ours, copy_wal_bytes(file));
    if (copy_same_bytes(ours, theirs))
        return false;
    /* The first turn of a start has all commits of the log. */
    copy_settle(file, ours, first ? 0 : copy_before_last(file));
    if (n == 0)
        return true;
    assert_true(copy_same_bytes(ours, theirs));
    return true;
}

/* The file as a standby has it. */
static void copy_as_standby(struct engine *s, const char *file, int64_t n)
{
    copy_sh("rm -f %s %s-*", file, file);
    if (n)
        copy_make(s, n, file);
}

#endif
