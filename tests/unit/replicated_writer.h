/* replicated_writer: an active of a test, in a process of its own: random turns in a real SQLite file, as db_commit() makes them (the row `replicated`, the form from the
 * write-ahead log, the engine, a held reader), which kills itself at any point. */
#ifndef TEST_REPLICATED_WRITER_H
#define TEST_REPLICATED_WRITER_H

#include "file_view.h"
#include "large_turn.h"
#include "memory_engine.h"
#include "seal.h"
#include "seeded.h"
#include "sha256.h"
#include "snapshot.h"
#include "turn_pages.h"
#include "wal_buffer.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint8_t writer_key[SEAL_KEY_BYTES] = {7};
#define WRITER_PROCESS "ingress-1"

struct writer {
    const char *path;
    struct memory_engine *engine;
    struct sealer *sealer;
    struct tenure mine;
    struct position at; /* of the last turn that is in the log */
    uint64_t seed;
    int turns;   /* how many it makes, before it closes the file */
    int kill_pm; /* at each point, so many times in a thousand it kills itself */
    int held_pm; /* so many turns in a thousand it dies after a commit that is not in the log */
    uint32_t pages; /* of the write-ahead log, as SQLite reported */
    sqlite3 *h, *held, *copier;
    struct turn_pages *turn_pages;
    int snapshot_pm; /* so many turns in a thousand begin a snapshot */
    struct snapshot_maker *snapshot;
};

static void w_exec(sqlite3 *h, const char *sql)
{
    char *error = NULL;

    if (sqlite3_exec(h, sql, NULL, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, error);
        _exit(1);
    }
}

static void w_maybe_die(const struct writer *w)
{
    if (chance_pm((unsigned)w->kill_pm))
        raise(SIGKILL);
}

/* A hash of all that SQL shows. */
static void content_of(sqlite3 *h, uint8_t out[32])
{
    static const char *const all[] = {
        "SELECT type, quote(name), quote(sql) FROM sqlite_schema ORDER BY 1, 2",
        "SELECT id, quote(v), quote(w) FROM t ORDER BY id",
        "SELECT quote(history), n, quote(chain) FROM replicated"};
    uint8_t sum[32] = {0};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        sqlite3_stmt *s;

        if (sqlite3_prepare_v2(h, all[i], -1, &s, NULL) != SQLITE_OK)
            continue;
        while (sqlite3_step(s) == SQLITE_ROW)
            for (int c = 0; c < 3; c++) {
                struct bytes parts[] = {{sum, sizeof sum},
                                        {sqlite3_column_text(s, c),
                                         (size_t)sqlite3_column_bytes(s, c)}};

                sha256_of_parts(parts, 2, sum);
            }
        sqlite3_finalize(s);
    }
    memcpy(out, sum, sizeof sum);
}

static int w_on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    (void)h, (void)name;
    ((struct writer *)arg)->pages = (uint32_t)pages;
    return SQLITE_OK;
}

static sqlite3 *w_open_one(const char *path, const char *vfs)
{
    sqlite3 *h;

    if (sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        vfs) != SQLITE_OK)
        _exit(1);
    sqlite3_wal_autocheckpoint(h, 0);
    return h;
}

static void w_hold(struct writer *w)
{
    w_exec(w->held, "BEGIN; SELECT count(*) FROM sqlite_schema");
}

static void w_random_change(sqlite3 *h)
{
    char sql[200];
    unsigned id = (unsigned)(rig_random() % 400);

    switch (rig_random() % 4) {
    case 0:
        snprintf(sql, sizeof sql, "DELETE FROM t WHERE id %% 97 = %u", id % 97);
        break;
    case 1:
        snprintf(sql, sizeof sql,
                 "UPDATE t SET w = randomblob(%u) WHERE id %% 53 = %u",
                 (unsigned)(rig_random() % 300), id % 53);
        break;
    default:
        snprintf(sql, sizeof sql,
                 "INSERT OR REPLACE INTO t VALUES (%u, randomblob(%u), "
                 "randomblob(20))",
                 id, (unsigned)(rig_random() % 9000));
    }
    w_exec(h, sql);
}

/* Changes and COMMIT, or a rollback of a transaction that has spilled into the log. */
static bool w_commit(struct writer *w)
{
    int changes = chance_pm(100) ? 60 : (int)(rig_random() % 6) + 1;
    sqlite3_stmt *s;

    w_exec(w->h, "BEGIN IMMEDIATE");
    for (int i = 0; i < changes; i++) {
        w_random_change(w->h);
        w_maybe_die(w);
    }
    if (chance_pm(100)) {
        w_exec(w->h, "ROLLBACK");
        return false;
    }
    sqlite3_prepare_v2(w->h,
                       "INSERT OR REPLACE INTO replicated (rowid, history, n, "
                       "chain) VALUES (1, ?, ?, ?)",
                       -1, &s, NULL);
    sqlite3_bind_blob(s, 1, w->at.history, HISTORY_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, w->at.n + 1);
    sqlite3_bind_blob(s, 3, w->at.chain, CHAIN_BYTES, SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_DONE)
        _exit(1);
    sqlite3_finalize(s);
    w_exec(w->h, "COMMIT");
    return true;
}

static void w_checkpoint(struct writer *w, int mode)
{
    sqlite3_wal_checkpoint_v2(w->copier, NULL, mode, NULL, NULL);
}

static void w_append(struct writer *w)
{
    struct position before = w->at, after = w->at;
    struct seal_about about = {.kind = SEAL_TURN,
                               .process = WRITER_PROCESS,
                               .epoch = w->mine.epoch,
                               .n = w->at.n + 1};
    struct sealed_parts sealed;
    struct buf form;
    int64_t beat;
    char why[ENGINE_WHY_BYTES];

    memcpy(about.history, w->at.history, HISTORY_BYTES);
    buf_init(&form, 64 << 20);
    if (turn_pages_read(w->turn_pages, &before, w->pages, &form, why) !=
        GR_OK) {
        fprintf(stderr, "%s\n", why);
        _exit(1);
    }
    position_next(&after, (struct bytes){form.data, form.len});
    sealer_seal(w->sealer, &about, (struct bytes){form.data, form.len},
                &sealed);
    content_of(w->h, w->engine->next_content);
    if (memory_engine_ops.append((struct engine *)w->engine, &w->mine, &before,
                                 &after, &sealed, &beat, why) != ENGINE_DONE)
        _exit(1);
    sealed_parts_fini(&sealed);
    buf_fini(&form);
    w->at = after;
}

static struct snapshot_place w_place(const struct writer *w)
{
    return (struct snapshot_place){.ops = &memory_engine_ops,
                                   .engine = (struct engine *)w->engine,
                                   .sealer = w->sealer,
                                   .process = WRITER_PROCESS};
}

/* Between two turns: the whole log is copied, and a snapshot begins. */
static void w_begin_snapshot(struct writer *w)
{
    struct snapshot_place place = w_place(w);

    w_exec(w->held, "ROLLBACK");
    w_checkpoint(w, SQLITE_CHECKPOINT_RESTART);
    w_hold(w);
    w->snapshot = snapshot_begin(&place, w->held, &w->at, 1);
}

/* One step. true: it is done. */
static bool w_step_snapshot(struct writer *w)
{
    char why[ENGINE_WHY_BYTES] = "";
    enum snapshot_step s = snapshot_step(w->snapshot, &w->mine, &w->at, why);

    if (s == SNAPSHOT_NO_ROW || s == SNAPSHOT_DAMAGED) {
        fprintf(stderr, "%s\n", why);
        _exit(1);
    }
    if (s != SNAPSHOT_DONE)
        return false;
    snapshot_end(w->snapshot);
    w->snapshot = NULL;
    return true;
}

/* As db_tidy(): a passive checkpoint at any time, a restart of the log between two turns. */
static void w_tidy(struct writer *w)
{
    w_maybe_die(w);
    if (chance_pm(300))
        w_checkpoint(w, SQLITE_CHECKPOINT_PASSIVE);
    w_maybe_die(w);
    w_exec(w->held, "ROLLBACK");
    if (chance_pm(200))
        w_checkpoint(w, SQLITE_CHECKPOINT_RESTART);
    w_hold(w);
}

static void w_turn(struct writer *w)
{
    if (!w_commit(w))
        return;
    if (chance_pm(400)) /* copies no page of the turn that is not in */
        w_checkpoint(w, SQLITE_CHECKPOINT_PASSIVE);
    w_maybe_die(w);
    if (chance_pm((unsigned)w->held_pm))
        raise(SIGKILL);
    w_append(w);
    w_tidy(w);
    if (w->snapshot)
        w_step_snapshot(w);
    else if (chance_pm((unsigned)w->snapshot_pm))
        w_begin_snapshot(w);
}

/* Commits of an opening: they belong to the first turn. */
static void w_migrate(struct writer *w)
{
    char sql[100];

    snprintf(sql, sizeof sql, "CREATE TABLE m_%lld_%llu (a); DROP TABLE t_old",
             (long long)w->at.n, (unsigned long long)w->seed % 1000);
    w_exec(w->h, "CREATE TABLE IF NOT EXISTS t_old (a)");
    w_maybe_die(w);
    w_exec(w->h, sql);
    w_maybe_die(w);
}

static void w_open(struct writer *w)
{
    w->h = w_open_one(w->path, wal_buffer_vfs());
    w_exec(w->h, "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA "
                 "synchronous = FULL; PRAGMA cache_size = 20");
    w->copier = w_open_one(w->path, NULL);
    w_exec(w->copier, "SELECT 1 FROM sqlite_schema");
    w->held = w_open_one(w->path, NULL);
    w_hold(w);
    w->turn_pages = turn_pages_open(w->path);
    sqlite3_wal_hook(w->h, w_on_wal, w);
    w_exec(w->h, "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v, w);"
                 "CREATE INDEX IF NOT EXISTS by_w ON t (w)");
    w_maybe_die(w);
    w_exec(w->h, "CREATE TABLE IF NOT EXISTS replicated (history, n, chain)");
    w_maybe_die(w);
    w_migrate(w);
}

static void w_close(struct writer *w)
{
    snapshot_end(w->snapshot);
    turn_pages_close(w->turn_pages);
    sqlite3_close(w->held);
    sqlite3_close(w->copier);
    sqlite3_close(w->h);
    sealer_close(w->sealer);
}

static void writer_main(struct writer *w)
{
    rig_seed = w->seed * 2 + 1;
    for (int i = 0; i < 10; i++)
        rig_random();
    w->sealer = sealer_open(writer_key);
    w_open(w);
    for (int i = 0; i < w->turns; i++)
        w_turn(w);
    w_close(w);
}

/* Runs it until it has made its turns or killed itself. true: it has closed the file. */
static inline bool writer_run(struct writer *w)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        writer_main(w);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child ||
        (WIFEXITED(status) && WEXITSTATUS(status) != 0) ||
        (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL))
        abort();
    return WIFEXITED(status);
}

static void slices_form(struct memory_engine *e, struct sealer *sealer,
                        const struct seal_about *about, size_t bytes,
                        struct buf *form)
{
    char why[ENGINE_WHY_BYTES];
    struct buf sealed;

    buf_init(&sealed, SEAL_PART_BYTES);
    for (int64_t i = 0; i < large_turn_slices(bytes); i++)
        if (me_get_slice((struct engine *)e, about->n, about->epoch, i, &sealed,
                         why) != ENGINE_DONE ||
            large_turn_open(sealer, about, i,
                            (struct bytes){sealed.data, sealed.len}, form,
                            why) != GR_OK)
            abort();
    buf_fini(&sealed);
}

/* Turn n of the log as its form. The caller frees it. */
static void turn_form(struct memory_engine *e, struct sealer *sealer, int64_t n,
                      struct buf *form)
{
    const struct me_turn *t = &e->turns[n];
    struct seal_about about = {.kind = SEAL_TURN,
                               .process = WRITER_PROCESS,
                               .epoch = t->epoch,
                               .n = n};
    char why[200];

    memcpy(about.history, t->at.history, HISTORY_BYTES);
    buf_init(form, 80 << 20);
    if (sealer_open_parts(sealer, &about, t->parts, t->count, form, why) !=
        GR_OK)
        abort();
    if (large_turn_bytes((struct bytes){form->data, form->len})) {
        size_t bytes = large_turn_bytes((struct bytes){form->data, form->len});

        buf_reset(form);
        slices_form(e, sealer, &about, bytes, form);
    }
}

#endif
