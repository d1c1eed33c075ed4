/* daemon_health: one line about the state of a process. */
#include "daemon_health.h"
#include "alert_kinds.h"
#include "clock.h"
#include "daemon.h"
#include "db_sums.h"
#include "json_text.h"
#include "log.h"
#include "manager.h"
#include <stdio.h>
#include <unistd.h>

enum {
    /* While the disk is full, the process tries to write every 250 ms, so a turn that was
     * rolled back longer ago says nothing about now. */
    FULL_MS = 5 * 1000,
    LINE_MAX = 200,
    PROBLEM_MAX = 300,
};

static const double GIB = 1024.0 * 1024 * 1024;

struct health {
    bool ready;
    const char *state; /* static */
    int64_t waiting;   /* messages that other processes do not have yet */
};

static int64_t waiting(struct daemon *d)
{
    struct link_state l;
    int64_t n = 0;
    int at = 0;

    while (links_each(d->links, &at, &l))
        if (l.out)
            n += (int64_t)(l.next - 1 - l.done);
    return n;
}

static struct health health(struct daemon *d)
{
    struct health h = {.ready = true, .state = "running"};

    h.waiting = waiting(d);
    if (d->plan->state)
        h.state = d->plan->state(d->plan->self, &h.ready);
    if (d->loop.stopping)
        h = (struct health){.state = "stopping", .waiting = h.waiting};
    else if (h.ready && d->full_ms && mono_ms() - d->full_ms < FULL_MS)
        h = (struct health){.state = "the disk is full; nothing can be stored",
                            .waiting = h.waiting};
    return h;
}

/* Microseconds as milliseconds; null for -1. */
static json_t *ms_or_null(int64_t us)
{
    return us < 0 ? json_null() : json_real((double)us / 1000);
}

json_t *daemon_health_store(struct daemon *d)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:i,s:o,s:o}", "path", db_path(d->db),
                     "bytes", (json_int_t)db_size_bytes(d->db), "wal_bytes",
                     (json_int_t)db_wal_bytes(d->db), "free_bytes",
                     (json_int_t)db_free_bytes(d->db), "schema_version",
                     d->plan->schema->count, "commit_ms",
                     ms_or_null(d->commit_us), "checkpoint_ms",
                     ms_or_null(db_checkpoint_us(d->db)));
}

/* ---- what is wrong ---- */

static void add(json_t *list, const char *format, ...) GR_PRINTF(2, 3);
static void add(json_t *list, const char *format, ...)
{
    char text[PROBLEM_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(list, json_text_of(text));
}

static void add_disk(struct daemon *d, json_t *list)
{
    double limit = 0, free_bytes = (double)db_free_bytes(d->db);

    for (size_t i = 0; i < d->settings->alert_count; i++) {
        const struct alert_rule *rule = &d->settings->alerts[i];

        if (rule->enabled && rule->when == ALERT_DISK_LOW &&
            rule->below > limit)
            limit = rule->below;
    }
    if (free_bytes < limit)
        add(list,
            "the disk has %.1f GiB left for its database, less than the %.1f "
            "GiB of the alert disk_low: free some space",
            free_bytes / GIB, limit / GIB);
}

static void add_links(struct daemon *d, json_t *list)
{
    struct link_state l;
    int at = 0;

    while (links_each(d->links, &at, &l)) {
        if (l.lost)
            add(list,
                "%llu messages from %s were lost after a restore; its log has "
                "their numbers",
                (unsigned long long)l.lost, l.peer);
        if (l.unprocessable)
            add(list,
                "%llu messages from %s could not be processed and were set "
                "aside; its log has them",
                (unsigned long long)l.unprocessable, l.peer);
    }
}

static json_t *problems(struct daemon *d)
{
    json_t *list = json_array();
    uint64_t damaged = (uint64_t)db_damage_count(),
             dropped = log_dropped_count();

    add_disk(d, list);
    add_links(d, list);
    if (damaged)
        add(list,
            "%llu rows of its database are damaged: run `grapnel verify %s`",
            (unsigned long long)damaged, d->name);
    if (dropped)
        add(list, "%llu log lines were discarded, as nothing read them in time",
            (unsigned long long)dropped);
    return list;
}

json_t *daemon_health_ask(void *daemon, json_t *args, char why[200])
{
    struct daemon *d = daemon;
    struct health h = health(d);

    (void)args;
    (void)why;
    return json_pack("{s:s,s:s,s:i,s:s,s:o,s:b,s:s,s:I,s:o,s:o}", "process",
                     d->name, "version", GRAPNEL_VERSION, "pid", (int)getpid(),
                     "kind", d->plan->process, "started_at",
                     json_time(d->started_ms), "ready", (int)h.ready, "state",
                     h.state, "waiting", (json_int_t)h.waiting, "store",
                     daemon_health_store(d), "problems", problems(d));
}

void daemon_health_full(struct daemon *d)
{
    d->full_ms = mono_ms();
}

int daemon_health_turn(struct daemon *d)
{
    char line[LINE_MAX];
    struct health h;

    if (d->loop.stopping)
        manager_stopping(d->settings->shutdown_grace_ms);
    if (manager_status_is_due(d->loop.mono_ms)) {
        h = health(d);
        snprintf(line, sizeof line, "%s; %lld waiting", h.state,
                 (long long)h.waiting);
        manager_status(line, d->loop.mono_ms);
    }
    return manager_turn(d->loop.mono_ms);
}
