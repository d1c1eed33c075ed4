/* Which pages a turn has: random turns of real SQLite files, with spills, rollbacks, restarts of the log, checkpoints of another connection and files that shrink.
 * Each image is compared with the file that SQLite itself makes of the log, and the turns, applied to a copy, with SQLite's backup. Then
 * logs made by hand, with what SQLite does not write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "checksum.h"
#include "seeded.h"
#include "turn_pages.h"
#include "wal_buffer.h"
#include <endian.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, FORM_MAX = 64 * MIB };

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/turn-pages-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int teardown(void **state)
{
    char *command = gr_printf("rm -rf %s", dir);

    (void)state;
    assert_int_equal(system(command), 0);
    free(command);
    return 0;
}

/* ---- a store, its turns, and a copy made of them ---- */

struct rig {
    sqlite3 *h, *other; /* the writer; a connection that copies the log */
    struct turn_pages *pages;
    struct position at;
    struct buf form;
    uint32_t frames; /* reported by SQLite for this turn; 0: nothing written */
    int copy;        /* the file to which turns are applied */
    bool savepoints;
    int turns, restarts, shrunk, spilled;
    uint32_t size_pages;
    uint8_t salts[8];
};

static void sql(sqlite3 *h, const char *text)
{
    char *error = NULL;

    if (sqlite3_exec(h, text, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", text, error);
}

static int64_t number(sqlite3 *h, const char *query)
{
    sqlite3_stmt *s;
    int64_t n;

    assert_int_equal(sqlite3_prepare_v2(h, query, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

static int on_commit(void *arg, sqlite3 *h, const char *name, int frames)
{
    struct rig *r = arg;

    (void)h;
    (void)name;
    r->frames = (uint32_t)frames;
    return SQLITE_OK;
}

static void open_store(struct rig *r, const char *vfs, int page_bytes)
{
    char *pragmas = gr_printf(
        "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL;"
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = %s;"
        "PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 8;",
        page_bytes, vfs ? "FULL" : "OFF"); /* the buffer is written by a sync */

    assert_int_equal(sqlite3_open_v2(in_dir("x.db"), &r->h,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                     vfs),
                     SQLITE_OK);
    sql(r->h, pragmas);
    free(pragmas);
    sqlite3_wal_hook(r->h, on_commit, r);
    assert_int_equal(sqlite3_open(in_dir("x.db"), &r->other), SQLITE_OK);
    sql(r->other, "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF");
}

static struct rig *rig_new(const char *vfs, int page_bytes)
{
    struct rig *r = gr_alloc(sizeof *r);

    unlink(in_dir("x.db"));
    unlink(in_dir("x.db-wal"));
    unlink(in_dir("x.db-shm"));
    open_store(r, vfs, page_bytes);
    /* The beginning of the history: an empty file in the mode for a write-ahead log. */
    sql(r->h, "CREATE TABLE begin(v); DROP TABLE begin;"
              "PRAGMA wal_checkpoint(TRUNCATE)");
    r->pages = turn_pages_open(in_dir("x.db"));
    memset(r->at.history, 7, HISTORY_BYTES);
    buf_init(&r->form, FORM_MAX);
    r->copy = open(in_dir("copy.db"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(r->copy >= 0);
    r->frames = 0;
    return r;
}

static void rig_free(struct rig *r)
{
    sqlite3_close(r->h);
    sqlite3_close(r->other);
    turn_pages_close(r->pages);
    buf_fini(&r->form);
    close(r->copy);
    free(r);
}

static void copy_file(const char *from, const char *to)
{
    static char piece[MIB];
    int in = open(from, O_RDONLY),
        out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ssize_t n;

    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, piece, sizeof piece)) > 0)
        assert_int_equal(write(out, piece, (size_t)n), n);
    close(in);
    close(out);
}

/* The file that SQLite makes of the database and its log. */
static int recovered_by_sqlite(void)
{
    sqlite3 *h;

    copy_file(in_dir("x.db"), in_dir("was.db"));
    copy_file(in_dir("x.db-wal"), in_dir("was.db-wal"));
    assert_int_equal(sqlite3_open(in_dir("was.db"), &h), SQLITE_OK);
    sql(h, "PRAGMA synchronous = OFF; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(h);
    return open(in_dir("was.db"), O_RDONLY);
}

static void check_images(const struct rig *r, const struct turn_head *head)
{
    static uint8_t expected[65536];
    struct bytes form = {r->form.data, r->form.len};
    int was = recovered_by_sqlite();
    struct stat st;

    assert_int_equal(fstat(was, &st), 0);
    assert_int_equal(st.st_size, (off_t)head->size_pages * head->page_bytes);
    for (uint32_t i = 0; i < head->page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page(form, head, i, &page);

        assert_int_equal(pread(was, expected, head->page_bytes,
                               (off_t)(page - 1) * head->page_bytes),
                         head->page_bytes);
        assert_memory_equal(image, expected, head->page_bytes);
    }
    close(was);
}

static void apply(struct rig *r, const struct turn_head *head)
{
    struct bytes form = {r->form.data, r->form.len};

    for (uint32_t i = 0; i < head->page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page(form, head, i, &page);

        assert_int_equal(pwrite(r->copy, image, head->page_bytes,
                                (off_t)(page - 1) * head->page_bytes),
                         head->page_bytes);
    }
    assert_int_equal(
        ftruncate(r->copy, (off_t)head->size_pages * head->page_bytes), 0);
}

/* A checksum of all tables, and of what they are. */
static uint64_t content(sqlite3 *h)
{
    uint64_t sum = CHECKSUM_BEGIN;
    sqlite3_stmt *tables, *rows;

    assert_int_equal(sqlite3_prepare_v2(
                         h,
                         "SELECT sql, type, name, rootpage FROM sqlite_schema "
                         "ORDER BY name",
                         -1, &tables, NULL),
                     SQLITE_OK);
    while (sqlite3_step(tables) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(tables, 2);
        char *query;

        sum = checksum_add(sum, name, strlen(name));
        if (strcmp((const char *)sqlite3_column_text(tables, 1), "table") != 0)
            continue;
        query = gr_printf("SELECT rowid, * FROM \"%s\" ORDER BY rowid", name);
        assert_int_equal(sqlite3_prepare_v2(h, query, -1, &rows, NULL),
                         SQLITE_OK);
        while (sqlite3_step(rows) == SQLITE_ROW)
            for (int i = 0; i < sqlite3_column_count(rows); i++) {
                const void *p = sqlite3_column_blob(rows, i);

                sum = checksum_add(sum, p ? p : "",
                                   (size_t)sqlite3_column_bytes(rows, i));
            }
        sqlite3_finalize(rows);
        free(query);
    }
    sqlite3_finalize(tables);
    return sum;
}

static void check_integrity(sqlite3 *h)
{
    sqlite3_stmt *s;

    assert_int_equal(
        sqlite3_prepare_v2(h, "PRAGMA integrity_check", -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
}

static void check_copy(const struct rig *r)
{
    char *uri = gr_printf("file:%s?immutable=1", in_dir("copy.db"));
    sqlite3 *copy, *backup;
    sqlite3_backup *b;

    assert_int_equal(sqlite3_open(":memory:", &backup), SQLITE_OK);
    b = sqlite3_backup_init(backup, "main", r->h, "main");
    assert_non_null(b);
    assert_int_equal(sqlite3_backup_step(b, -1), SQLITE_DONE);
    sqlite3_backup_finish(b);
    assert_int_equal(sqlite3_open_v2(uri, &copy,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                                     NULL),
                     SQLITE_OK);
    check_integrity(copy);
    assert_int_equal(number(copy, "PRAGMA page_count"),
                     number(backup, "PRAGMA page_count"));
    assert_int_equal(number(copy, "PRAGMA freelist_count"),
                     number(backup, "PRAGMA freelist_count"));
    assert_true(content(copy) == content(backup));
    sqlite3_close(copy);
    sqlite3_close(backup);
    free(uri);
}

/* What the process does after each COMMIT that wrote. */
static void end_turn(struct rig *r)
{
    struct position before = r->at;
    struct turn_head head;
    uint8_t salts[8];
    char why[200] = "";

    buf_reset(&r->form);
    if (turn_pages_read(r->pages, &r->at, r->frames, &r->form, why) != GR_OK)
        fail_msg("turn %lld: %s", (long long)r->at.n + 1, why);
    assert_int_equal(
        turn_read((struct bytes){r->form.data, r->form.len}, &head), GR_OK);
    assert_int_equal(head.n, before.n + 1);
    assert_memory_equal(head.history, before.history, HISTORY_BYTES);
    position_next(&r->at, (struct bytes){r->form.data, r->form.len});
    check_images(r, &head);
    apply(r, &head);
    check_copy(r);
    turn_pages_salts(r->pages, salts);
    r->turns++;
    r->restarts += memcmp(salts, r->salts, sizeof salts) != 0;
    r->shrunk += head.size_pages < r->size_pages;
    memcpy(r->salts, salts, sizeof salts);
    r->size_pages = head.size_pages;
    r->frames = 0;
}

/* ---- random turns ---- */

static int64_t random_below(int64_t n)
{
    return (int64_t)(rig_random() % (uint64_t)n);
}

static void change(sqlite3 *h)
{
    static const char *const changes[] = {
        "INSERT INTO t SELECT NULL, hex(randomblob(%lld)) FROM t LIMIT 20",
        "INSERT INTO t VALUES (NULL, randomblob(%lld))",
        "UPDATE t SET v = v || 'x' WHERE id %% 7 = %lld %% 7",
        "UPDATE t SET v = randomblob(100) WHERE id > %lld",
        "DELETE FROM t WHERE id %% 5 = %lld %% 5",
        "DELETE FROM t WHERE id > 3 * %lld",
        "DROP INDEX IF EXISTS t_v; CREATE INDEX t_v ON t(v) /* %lld */",
        "DROP INDEX IF EXISTS t_v /* %lld */",
        "CREATE TABLE IF NOT EXISTS u AS SELECT id, v FROM t LIMIT %lld",
        "DROP TABLE IF EXISTS u /* %lld */",
        "PRAGMA incremental_vacuum(%lld)",
        "DELETE FROM t WHERE (SELECT count(*) FROM t) > 400 AND id > %lld",
    };
    char *text = gr_printf("INSERT INTO t VALUES (NULL, 'a row')");

    sql(h, text);
    free(text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    text = gr_printf(changes[rig_random() % COUNT_OF(changes)],
                     (long long)random_below(300));
#pragma GCC diagnostic pop
    sql(h, text);
    free(text);
}

static int cache_spills(sqlite3 *h)
{
    int spilled = 0, high;

    sqlite3_db_status(h, SQLITE_DBSTATUS_CACHE_SPILL, &spilled, &high, 1);
    return spilled;
}

static void random_turn(struct rig *r)
{
    sql(r->h, "BEGIN");
    for (int64_t i = random_below(6); i >= 0; i--) {
        if (r->savepoints && chance_pm(150)) {
            sql(r->h, "SAVEPOINT s");
            change(r->h);
            sql(r->h, "ROLLBACK TO s; RELEASE s");
        }
        change(r->h);
    }
    if (chance_pm(150)) {
        sql(r->h, "ROLLBACK");
        assert_int_equal(r->frames, 0);
    } else {
        sql(r->h, "COMMIT");
        end_turn(r);
    }
    r->spilled += cache_spills(r->h);
}

static void between(struct rig *r)
{
    if (chance_pm(300))
        sql(r->other, "PRAGMA wal_checkpoint(PASSIVE)");
    if (chance_pm(60))
        sql(r->h, "PRAGMA wal_checkpoint(RESTART)");
    if (chance_pm(30))
        sql(r->h, "PRAGMA wal_checkpoint(TRUNCATE)");
    if (chance_pm(20)) {
        sql(r->h, "VACUUM");
        end_turn(r);
    }
}

static void random_turns(const char *vfs, int page_bytes, int turns,
                         bool savepoints)
{
    struct rig *r = rig_new(vfs, page_bytes);

    r->savepoints = savepoints;
    if (savepoints)
        sql(r->h, "PRAGMA cache_size = 10000");
    sql(r->h, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    end_turn(r);
    while (r->turns < turns) {
        random_turn(r);
        between(r);
    }
    print_message("pages of %d: %d turns, %d restarts of the log, %d times "
                  "smaller, %d pages spilled\n",
                  page_bytes, r->turns, r->restarts, r->shrunk, r->spilled);
    assert_true(r->restarts > 3 && r->shrunk > 3);
    assert_true((r->spilled > 100) == (!savepoints && page_bytes < 65536));
    rig_free(r);
}

static void turns_of_small_pages(void **state)
{
    (void)state;
    random_turns(NULL, 512, 120, false);
}

static void turns_of_usual_pages_with_the_products_log_buffer(void **state)
{
    (void)state;
    random_turns(wal_buffer_vfs(), 4096, 120, false);
}

static void turns_of_usual_pages(void **state)
{
    (void)state;
    random_turns(NULL, 4096, 60, false);
}

static void turns_of_the_largest_pages(void **state)
{
    (void)state;
    random_turns(wal_buffer_vfs(), 65536, 60, false);
}

/* Without spills: after a page was spilled and then rolled back to a savepoint, SQLite 3.40 begins the next commit with a wrong
 * checksum, and its own recovery would end before that commit. */
static void turns_with_savepoints(void **state)
{
    (void)state;
    random_turns(wal_buffer_vfs(), 4096, 80, true);
}

/* Its frames are read in several pieces, and many pages are written more than once. */
static void a_large_turn(void **state)
{
    struct rig *r = rig_new(wal_buffer_vfs(), 4096);

    (void)state;
    sql(r->h, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    end_turn(r);
    sql(r->h,
        "BEGIN;"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
        "i < 3000) INSERT INTO t SELECT i, randomblob(3000) FROM n;"
        "UPDATE t SET v = randomblob(3000) WHERE id % 3 = 0;"
        "DELETE FROM t WHERE id > 2500; COMMIT");
    assert_true(r->frames > 2 * 1024 + 1);
    end_turn(r);
    sql(r->h, "INSERT INTO t VALUES (NULL, 'x')");
    end_turn(r);
    rig_free(r);
}

/* As at a start: several commits are one turn. */
static void several_commits_are_one_turn(void **state)
{
    struct rig *r = rig_new(NULL, 4096);

    (void)state;
    sql(r->h, "CREATE TABLE t(id INTEGER PRIMARY KEY, v);"
              "INSERT INTO t VALUES (1, randomblob(50000));"
              "DELETE FROM t; PRAGMA incremental_vacuum;"
              "INSERT INTO t VALUES (2, randomblob(20000))");
    end_turn(r);
    rig_free(r);
}

/* Frames that a rolled-back turn left after the last commit are not read, and the next commit overwrites them. */
static void a_rolled_back_turn_is_not_read(void **state)
{
    struct rig *r = rig_new(NULL, 4096);
    struct stat before, after;

    (void)state;
    sql(r->h, "CREATE TABLE t(id INTEGER PRIMARY KEY, v);"
              "INSERT INTO t VALUES (1, randomblob(50000))");
    end_turn(r);
    assert_int_equal(stat(in_dir("x.db-wal"), &before), 0);
    sql(r->h, "BEGIN; UPDATE t SET v = randomblob(400000); ROLLBACK");
    assert_int_equal(stat(in_dir("x.db-wal"), &after), 0);
    assert_true(after.st_size > before.st_size + 200000);
    sql(r->h, "INSERT INTO t VALUES (2, 'x')");
    end_turn(r);
    rig_free(r);
}

/* All connections were closed, so SQLite has removed the log. */
static void a_log_that_was_removed_is_opened_again(void **state)
{
    struct rig *r = rig_new(NULL, 4096);

    (void)state;
    sql(r->h, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    end_turn(r);
    sqlite3_close(r->h);
    sqlite3_close(r->other);
    open_store(r, NULL, 4096);
    sql(r->h, "INSERT INTO t VALUES (1, 'x')");
    assert_true(r->frames > 0);
    end_turn(r);
    rig_free(r);
}

/* A file that grows beyond 1 GiB (with pages of 64 KiB, and most of it a hole): SQLite leaves out the page with the byte that it locks. */
static void a_file_that_passes_1_gib(void **state)
{
    enum { PAGE = 65536, LOCKED = 16385 };
    static const uint8_t size[] = {0, 0, 0x40, 0}; /* 16384 pages */
    struct rig *r = rig_new(NULL, PAGE);
    struct turn_head head;
    char why[200] = "";
    int fd;

    (void)state;
    assert_int_equal(turn_locked_page(PAGE), LOCKED);
    sql(r->h, "PRAGMA auto_vacuum = NONE; VACUUM;"
              "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    sqlite3_close(r->h);
    sqlite3_close(r->other);
    fd = open(in_dir("x.db"), O_RDWR);
    assert_int_equal(pwrite(fd, size, sizeof size, 28), sizeof size);
    assert_int_equal(ftruncate(fd, (off_t)PAGE * 16384), 0);
    close(fd);
    open_store(r, NULL, PAGE);
    sql(r->h, "INSERT INTO t VALUES (1, randomblob(500000))");
    assert_int_equal(
        turn_pages_read(r->pages, &r->at, r->frames, &r->form, why), GR_OK);
    assert_int_equal(
        turn_read((struct bytes){r->form.data, r->form.len}, &head), GR_OK);
    assert_true(head.size_pages > LOCKED + 2);
    for (uint32_t i = 0; i < head.page_count; i++) {
        uint32_t page;

        turn_page((struct bytes){r->form.data, r->form.len}, &head, i, &page);
        assert_int_not_equal(page, LOCKED);
    }
    rig_free(r);
}

/* ---- logs made by hand ---- */

struct made {
    uint8_t *bytes;
    size_t len;
    uint32_t page_bytes, a, b, frames;
    bool big_endian;
};

static void put_be(uint8_t *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, sizeof v);
}

static void sum(struct made *m, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint32_t x, y;

        memcpy(&x, p + i, 4);
        memcpy(&y, p + i + 4, 4);
        m->a += (m->big_endian ? be32toh(x) : le32toh(x)) + m->b;
        m->b += (m->big_endian ? be32toh(y) : le32toh(y)) + m->a;
    }
}

static struct made make_log(uint32_t page_bytes, bool big_endian)
{
    struct made m = {.page_bytes = page_bytes, .big_endian = big_endian};

    m.bytes = gr_alloc(32);
    m.len = 32;
    put_be(m.bytes, 0x377f0682 | (big_endian ? 1 : 0));
    put_be(m.bytes + 4, 3007000);
    put_be(m.bytes + 8, page_bytes);
    put_be(m.bytes + 16, 0x11111111);
    put_be(m.bytes + 20, 0x22222222);
    sum(&m, m.bytes, 24);
    put_be(m.bytes + 24, m.a);
    put_be(m.bytes + 28, m.b);
    return m;
}

/* A page that is full of `fill`; size_pages is not 0 in a frame that ends a transaction. */
static void add_frame(struct made *m, uint32_t page, int fill,
                      uint32_t size_pages)
{
    uint8_t *f;

    m->bytes = gr_realloc(m->bytes, m->len + 24 + m->page_bytes);
    f = m->bytes + m->len;
    m->len += 24 + m->page_bytes;
    memset(f + 24, fill, m->page_bytes);
    put_be(f, page);
    put_be(f + 4, size_pages);
    memcpy(f + 8, m->bytes + 16, 8);
    sum(m, f, 8);
    sum(m, f + 24, m->page_bytes);
    put_be(f + 16, m->a);
    put_be(f + 20, m->b);
    m->frames++;
}

static void write_log(const struct made *m, size_t len)
{
    int fd = open(in_dir("made.db-wal"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, m->bytes, len), (ssize_t)len);
    close(fd);
}

static struct turn_pages *open_made(const struct made *m)
{
    write_log(m, m->len);
    return turn_pages_open(in_dir("made.db"));
}

static const struct position begin_at = {.n = 6};

/* Reads a made log once, up to this frame. Frees it. */
static gr_rc read_made(struct made *m, uint32_t frames, struct buf *form,
                       char why[200])
{
    struct turn_pages *t = open_made(m);
    gr_rc rc = turn_pages_read(t, &begin_at, frames, form, why);

    turn_pages_close(t);
    free(m->bytes);
    return rc;
}

static void refused(struct made m, uint32_t frames, const char *expected)
{
    struct buf form;
    char why[200] = "";

    buf_init(&form, MIB);
    buf_puts(&form, "before");
    assert_int_equal(read_made(&m, frames, &form, why), GR_REFUSE);
    if (!strstr(why, expected))
        fail_msg("\"%s\" does not say \"%s\"", why, expected);
    assert_int_equal(form.len, 6);
    assert_string_equal(form.data, "before");
    buf_fini(&form);
}

/* Reads pages and the first byte of each, as text. */
static char *pages_of(struct made m)
{
    struct turn_head head;
    struct buf form, text;
    char why[200] = "", *out;

    buf_init(&form, 8 * MIB);
    buf_init(&text, 1000);
    if (read_made(&m, m.frames, &form, why) != GR_OK)
        fail_msg("%s", why);
    assert_int_equal(turn_read((struct bytes){form.data, form.len}, &head),
                     GR_OK);
    assert_int_equal(head.n, 7);
    for (uint32_t i = 0; i < head.page_count; i++) {
        uint32_t page;
        const uint8_t *image = turn_page((struct bytes){form.data, form.len},
                                         &head, i, &page);

        buf_printf(&text, "%u=%c ", page, image[0]);
    }
    buf_printf(&text, "of %u", head.size_pages);
    out = buf_take(&text);
    buf_fini(&form);
    return out;
}

static void has(struct made m, const char *expected)
{
    char *pages = pages_of(m);

    assert_string_equal(pages, expected);
    free(pages);
}

static void the_last_image_of_a_page_counts(void **state)
{
    (void)state;
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        struct made m = make_log(512, big_endian);

        add_frame(&m, 9, 'a', 0);
        add_frame(&m, 2, 'b', 0);
        add_frame(&m, 9, 'c', 0);
        add_frame(&m, 1, 'd', 0);
        add_frame(&m, 9, 'e', 9);
        has(m, "1=d 2=b 9=e of 9");
    }
}

static void pages_beyond_the_files_end_are_left_out(void **state)
{
    struct made m = make_log(1024, false);

    (void)state;
    add_frame(&m, 7, 'a', 7);
    add_frame(&m, 4, 'b', 0);
    add_frame(&m, 5, 'c', 0);
    add_frame(&m, 3, 'd', 4);
    has(m, "3=d 4=b of 4");
}

static void the_page_that_sqlite_locks_is_left_out(void **state)
{
    struct made m = make_log(65536, false);

    (void)state;
    add_frame(&m, 16384, 'a', 0);
    add_frame(&m, 16385, 'b', 0);
    add_frame(&m, 16386, 'c', 16386);
    has(m, "16384=a 16386=c of 16386");
}

static struct made two_frames(void)
{
    struct made m = make_log(512, false);

    add_frame(&m, 1, 'a', 0);
    add_frame(&m, 2, 'b', 2);
    return m;
}

static void a_log_that_is_not_what_sqlite_reported(void **state)
{
    struct made m = two_frames();

    (void)state;
    refused(m, 1, "frame 1 of the write-ahead log does not end a transaction");
    refused(two_frames(), 0, "reported 0 frames");
    refused(two_frames(), 3, "ends before frame 3");
    m = two_frames();
    m.len--;
    refused(m, 2, "ends before frame 2");
    m = two_frames();
    m.len = 31;
    refused(m, 2, "no header");
    m = make_log(512, false);
    add_frame(&m, 0, 'a', 2);
    refused(m, 1, "page number 0");
    m = two_frames();
    m.bytes[17]++; /* a salt: the header's checksum is wrong */
    refused(m, 2, "damaged header");
    m = two_frames();
    m.bytes[32 + 536 + 8]++; /* the salt of frame 2 */
    refused(m, 2, "frame 2 of the write-ahead log has a wrong checksum");
}

static void each_flipped_bit_is_refused(void **state)
{
    struct made whole = two_frames();

    (void)state;
    for (size_t at = 0; at < whole.len; at++) {
        struct made m = two_frames();
        struct buf form;
        char why[200];

        /* The salts in a frame are not part of its checksum, they are compared; the other bytes are. */
        m.bytes[at] ^= (uint8_t)(1 << rig_random() % 8);
        buf_init(&form, MIB);
        assert_int_equal(read_made(&m, 2, &form, why), GR_REFUSE);
        assert_int_equal(form.len, 0);
        buf_fini(&form);
    }
    free(whole.bytes);
}

static void a_missing_log_is_refused(void **state)
{
    struct turn_pages *t = turn_pages_open(in_dir("nowhere.db"));
    uint8_t salts[8], zeros[8] = {0};
    struct buf form;
    char why[200];

    (void)state;
    buf_init(&form, MIB);
    turn_pages_salts(t, salts);
    assert_memory_equal(salts, zeros, 8);
    assert_int_equal(turn_pages_read(t, &begin_at, 1, &form, why), GR_REFUSE);
    assert_non_null(strstr(why, "missing"));
    turn_pages_close(t);
    turn_pages_close(NULL);
}

static void a_turn_that_does_not_fit_is_refused(void **state)
{
    /* Two pages of 512 bytes: 36 + 2 * 516. */
    for (size_t max = 1066; max < 1070; max++) {
        struct made m = two_frames();
        struct buf form;
        char why[200] = "";
        gr_rc rc;

        buf_init(&form, max);
        rc = read_made(&m, 2, &form, why);
        assert_int_equal(rc, max < 1068 ? GR_REFUSE : GR_OK);
        assert_int_equal(form.len, max < 1068 ? 0 : 1068);
        buf_fini(&form);
    }
    (void)state;
}

/* Frames before the place are not read again, and those of an older log after it are refused. */
static void a_read_begins_where_the_last_one_ended(void **state)
{
    struct made m = two_frames(), older = two_frames();
    struct turn_pages *t = open_made(&m);
    struct turn_head head;
    struct buf form;
    char why[200] = "";
    uint32_t page;

    (void)state;
    buf_init(&form, MIB);
    assert_int_equal(turn_pages_read(t, &begin_at, 2, &form, why), GR_OK);
    assert_int_equal(turn_pages_read(t, &begin_at, 2, &form, why), GR_REFUSE);
    assert_non_null(strstr(why, "2 were read before"));
    add_frame(&m, 3, 'c', 3);
    memset(m.bytes + 32, 'x', 536); /* frame 1 */
    write_log(&m, m.len);
    buf_reset(&form);
    assert_int_equal(turn_pages_read(t, &begin_at, 3, &form, why), GR_OK);
    assert_int_equal(turn_read((struct bytes){form.data, form.len}, &head),
                     GR_OK);
    assert_int_equal(head.page_count, 1);
    turn_page((struct bytes){form.data, form.len}, &head, 0, &page);
    assert_int_equal(page, 3);
    /* The log is begun anew with one frame; a frame of the older one follows. */
    put_be(older.bytes + 20, 0x33333333);
    older.a = older.b = older.frames = 0;
    sum(&older, older.bytes, 24);
    put_be(older.bytes + 24, older.a);
    put_be(older.bytes + 28, older.b);
    older.len = 32;
    add_frame(&older, 1, 'd', 1);
    memcpy(m.bytes, older.bytes, older.len);
    write_log(&m, m.len);
    buf_reset(&form);
    assert_int_equal(turn_pages_read(t, &begin_at, 2, &form, why), GR_REFUSE);
    assert_int_equal(form.len, 0);
    assert_int_equal(turn_pages_read(t, &begin_at, 1, &form, why), GR_OK);
    assert_int_equal(turn_read((struct bytes){form.data, form.len}, &head),
                     GR_OK);
    assert_int_equal(head.size_pages, 1);
    turn_pages_close(t);
    buf_fini(&form);
    free(m.bytes);
    free(older.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_of_small_pages),
        cmocka_unit_test(turns_of_usual_pages_with_the_products_log_buffer),
        cmocka_unit_test(turns_of_usual_pages),
        cmocka_unit_test(turns_of_the_largest_pages),
        cmocka_unit_test(turns_with_savepoints),
        cmocka_unit_test(a_large_turn),
        cmocka_unit_test(several_commits_are_one_turn),
        cmocka_unit_test(a_rolled_back_turn_is_not_read),
        cmocka_unit_test(a_log_that_was_removed_is_opened_again),
        cmocka_unit_test(a_file_that_passes_1_gib),
        cmocka_unit_test(the_last_image_of_a_page_counts),
        cmocka_unit_test(pages_beyond_the_files_end_are_left_out),
        cmocka_unit_test(the_page_that_sqlite_locks_is_left_out),
        cmocka_unit_test(a_log_that_is_not_what_sqlite_reported),
        cmocka_unit_test(each_flipped_bit_is_refused),
        cmocka_unit_test(a_missing_log_is_refused),
        cmocka_unit_test(a_turn_that_does_not_fit_is_refused),
        cmocka_unit_test(a_read_begins_where_the_last_one_ended),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
