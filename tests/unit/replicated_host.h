/* replicated_host: what a start does with its file in tests: finds out what is there, cuts, follows the log, hands over to a writer. Each step that must succeed
 * aborts the process if it does not. */
#ifndef TEST_REPLICATED_HOST_H
#define TEST_REPLICATED_HOST_H

#include "apply.h"
#include "cut.h"
#include "replicated_writer.h"

#define must(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

struct host {
    struct memory_engine *engine;
    struct sealer *sealer;
    int full; /* how often the disk was full, and the step was repeated */
    int kept, cut,
        clean; /* starts whose last turn was in the log, or not; without a log */
    int restored; /* starts without a file */
};

/* What SQL shows in the file is that of turn n, and the file is good. */
static inline bool host_content_is(const struct host *host, const char *path,
                                   int64_t n)
{
    struct file_view *v = file_view_open(path);
    sqlite3 *h;
    sqlite3_stmt *s;
    uint8_t content[32];
    bool good;

    if (n == 0)
        return true;
    must(v);
    h = file_view_sql(v, 0);
    must(h);
    content_of(h, content);
    good = memcmp(content, host->engine->turns[n].content, sizeof content) == 0;
    must(sqlite3_prepare_v2(h, "PRAGMA integrity_check", -1, &s, NULL) ==
         SQLITE_OK);
    must(sqlite3_step(s) == SQLITE_ROW);
    good = good && strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
    sqlite3_finalize(s);
    sqlite3_close(h);
    file_view_close(v);
    return good;
}

/* Applies turns of the log after the position, up to this one; it is synced at random. */
static inline void host_follow(struct host *host, struct applied *a, int64_t to)
{
    char why[200];
    gr_rc rc;

    while (applied_position(a)->n < to) {
        int64_t n = applied_position(a)->n + 1;
        struct buf form;

        turn_form(host->engine, host->sealer, n, &form);
        while ((rc = applied_turn(a, (struct bytes){form.data, form.len},
                                  host->engine->turns[n].at.chain, why)) ==
               GR_AGAIN)
            host->full++;
        must(rc == GR_OK);
        buf_fini(&form);
        if (chance_pm(200))
            while (applied_sync(a, why) != GR_OK)
                host->full++;
    }
    while (applied_sync(a, why) != GR_OK)
        host->full++;
}

static inline enum content_match
host_match(struct host *host, const struct content *c, char why[200])
{
    struct memory_engine *e = host->engine;
    const struct position *from = content_from(c);
    struct position at = me_at(e);
    struct buf form;
    enum content_match m;

    buf_init(&form, 1);
    if (from->n < e->last && from->n + 1 >= e->first)
        turn_form(e, host->sealer, from->n + 1, &form);
    m = content_match(c, &at, (struct bytes){form.data, form.len},
                      e->turns[from->n + 1].at.chain, why);
    buf_fini(&form);
    return m;
}

__attribute__((format(printf, 1, 2))) static inline void sh(const char *format,
                                                            ...)
{
    char command[600];
    va_list ap;

    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    if (system(command) != 0) {
        fprintf(stderr, "failed: %s\n", command);
        abort();
    }
}

static inline bool host_has(const char *path, const char *suffix)
{
    char *name = gr_printf("%s%s", path, suffix);
    bool has = access(name, F_OK) == 0;

    free(name);
    return has;
}

/* The newest snapshot, as far as the parts; the caller follows the log. */
static inline struct applied *host_restore(struct host *host, const char *path)
{
    struct snapshot_place place = {.ops = &memory_engine_ops,
                                   .engine = (struct engine *)host->engine,
                                   .sealer = host->sealer,
                                   .process = WRITER_PROCESS};
    struct snapshot_restore *r = snapshot_restore_begin(
        &place, host->engine->owner.at.history, path);
    char why[ENGINE_WHY_BYTES] = "";
    enum snapshot_step s;
    struct applied *a;

    while ((s = snapshot_restore_step(r, why)) == SNAPSHOT_MORE ||
           s == SNAPSHOT_WAIT)
        host->full += s == SNAPSHOT_WAIT;
    snapshot_restore_end(r);
    if (s == SNAPSHOT_NO_ROW)
        return NULL;
    if (s != SNAPSHOT_DONE)
        fprintf(stderr, "%s\n", why);
    must(s == SNAPSHOT_DONE);
    host->restored++;
    a = applied_open(path);
    must(a);
    return a;
}

/* The file is one that a former active or a standby has left, or there is none. */
static inline struct applied *host_start(struct host *host, const char *path)
{
    struct content c;
    char why[200] = "";
    struct position to = {0};
    bool had_log = host_has(path, "-wal");
    struct applied *a;
    enum content_match m;
    gr_rc rc = content_read(path, &c, why);

    if (rc != GR_OK)
        fprintf(stderr, "%s\n", why);
    must(rc == GR_OK);
    if (!c.exists && (a = host_restore(host, path)))
        return a;
    if (!c.exists) {
        while (!(a = applied_create(path, &host->engine->owner.at)))
            host->full++;
        return a;
    }
    m = host_match(host, &c, why);
    if (m == CONTENT_TOO_OLD) { /* two snapshots were made meanwhile */
        set_aside(path, why);
        a = host_restore(host, path);
        must(a);
        return a;
    }
    if (m != CONTENT_IS_LAST && m != CONTENT_IS_BEFORE)
        fprintf(stderr, "%s\n", why);
    must(m == CONTENT_IS_LAST || m == CONTENT_IS_BEFORE);
    to = m == CONTENT_IS_LAST ? c.last : c.before;
    host->kept += m == CONTENT_IS_LAST && !c.in_file;
    host->cut += m == CONTENT_IS_BEFORE && !c.in_file;
    host->clean += !had_log;
    while ((rc = cut_to(path, &to, why)) == GR_AGAIN)
        host->full++;
    must(rc == GR_OK);
    must(!host_has(path, "-wal") && !host_has(path, "-shm"));
    a = applied_open(path);
    must(a);
    must(position_equal(applied_position(a), &to));
    return a;
}

/* The file belongs to a writer from now on. */
static inline void host_take_over(struct host *host, struct applied *a,
                                  struct writer *w)
{
    struct memory_engine *e = host->engine;

    e->owner.epoch++;
    e->owner.holder[0] = (uint8_t)(e->owner.epoch % 255 + 1);
    w->engine = e;
    w->mine.epoch = e->owner.epoch;
    memcpy(w->mine.holder, e->owner.holder, HOLDER_BYTES);
    w->at = *applied_position(a);
    while (applied_note_holder(a, w->mine.holder) != GR_OK)
        host->full++;
    while (applied_hand_over(a) != GR_OK)
        host->full++;
    applied_close(a);
}

#endif
