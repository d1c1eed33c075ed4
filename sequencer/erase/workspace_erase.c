/* workspace_erase: goes through the phases of an erasure, process by process and page by page.
 *
 * Position: {"hash", "phase", "at": the last process that is done, "n": the last event that is done,
 * "end": the last event of the page, "position": of the process, "rows": {ingress: row}}. */
#include "workspace_erase.h"
#include "commands.h"
#include "daemon_erase.h"
#include "json_text.h"
#include "log.h"
#include "managed_endpoints.h"
#include "operational.h"
#include "operational_events.h"
#include "outcomes.h"
#include "processes.h"
#include "sequencer.h"
#include "store.h"
#include "store_erase.h"
#include "stores.h"
#include "streams.h"
#include <czmq.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE_EVENTS = 100,
    DROPS_AT_ONCE = 64, /* deliveries ended in a step */
    ENDPOINTS_AT_ONCE = 256,
    REPLY_MS = 10 * 1000,
    AGAIN_MS = 500, /* until a process that is away is asked again */
};

struct erasing {
    struct sequencer *q;
    struct store_erase *store;
    zsock_t *asked; /* the open question, or NULL */
    char *question; /* what was asked of whom */
    int64_t asked_ms;
    char *name, *name_hash; /* the workspace with this hash */
    bool made_again;        /* the job that erases all again is made */
};

struct erasing *workspace_erase_open(struct sequencer *q)
{
    struct erasing *e = gr_alloc(sizeof *e);

    e->q = q;
    e->store = store_erase_open(q->d.db);
    return e;
}

static void forget_question(struct erasing *e)
{
    zsock_destroy(&e->asked);
    free(e->question);
    e->question = NULL;
}

static void forget_name(struct erasing *e)
{
    free(e->name);
    free(e->name_hash);
    e->name = e->name_hash = NULL;
}

void workspace_erase_undo(struct erasing *e)
{
    forget_question(e);
    e->made_again = false;
}

void workspace_erase_close(struct erasing *e)
{
    forget_question(e);
    forget_name(e);
    store_erase_close(e->store);
    free(e);
}

/* ---- names ---- */

bool workspace_erased(const struct sequencer *q, struct bytes workspace)
{
    return erasures_has(q->d.erasures, workspace);
}

void workspace_erased_label(const char *hash,
                            char label[ERASED_LABEL_BYTES + 1])
{
    snprintf(label, ERASED_LABEL_BYTES + 1, "erased:%.16s", hash);
}

bool workspace_is_erased_label(const char *workspace)
{
    return strncmp(workspace, "erased:", strlen("erased:")) == 0;
}

struct finding {
    struct erasing *e;
    const char *hash;
};

static bool on_name(void *arg, const char *name)
{
    struct finding *f = arg;
    char hash[ERASURE_HASH_BYTES + 1], why[200];

    if (erasures_hash(f->e->q->d.erasures, name, hash, why) != GR_OK ||
        strcmp(hash, f->hash) != 0)
        return true;
    f->e->name = gr_strdup(name);
    return false;
}

/* The name that has this hash; NULL: it is not known any more. */
static const char *name_of(struct erasing *e, const char *hash,
                           const json_t *args)
{
    const char *given = json_string_value(json_object_get(args, "_workspace"));

    if (given)
        return given;
    if (!e->name_hash || strcmp(e->name_hash, hash) != 0) {
        forget_name(e);
        e->name_hash = gr_strdup(hash);
        store_erase_names(e->store, on_name, &(struct finding){e, hash});
    }
    return e->name;
}

/* ---- a step ---- */

struct step {
    struct erasing *e;
    struct sequencer *q;
    struct job *job;
    json_t *at; /* the position, which is changed */
    const char *hash, *name;
    char label[ERASED_LABEL_BYTES + 1];
};

static int64_t number(const struct step *s, const char *key)
{
    return json_integer_value(json_object_get(s->at, key));
}

static void set_number(struct step *s, const char *key, int64_t n)
{
    json_object_set_new(s->at, key, json_integer(n));
}

static const char *text(const struct step *s, const char *key)
{
    const char *v = json_string_value(json_object_get(s->at, key));

    return v ? v : "";
}

static void begin_phase(struct step *s, const char *phase)
{
    json_object_set_new(s->at, "phase", json_string(phase));
    json_object_set_new(s->at, "at", json_string(""));
    set_number(s, "n", 0);
    set_number(s, "position", 0);
}

/* Processes on other hosts are asked by a console, where there is one. */
static bool asks_hosts(const struct sequencer *q)
{
    for (size_t i = 0; i < q->d.settings->cluster.peer_count; i++)
        if (process_is(q->d.settings->cluster.peers[i].name, "console"))
            return true;
    return false;
}

static bool is_elsewhere(const struct sequencer *q, const char *process)
{
    size_t at = 0;
    const char *name;

    while ((name = cluster_asked(q->d.cluster, &at)))
        if (strcmp(name, process) == 0)
            return true;
    return false;
}

struct choice {
    const char *after, *kinds; /* kinds: NULL: all */
    char *best;
};

static void consider(struct choice *c, const char *name)
{
    const struct store_kind *kind = store_kind_of(name);

    if (!kind || (c->kinds && !strstr(c->kinds, kind->process)) ||
        strcmp(name, c->after) <= 0 || (c->best && strcmp(name, c->best) >= 0))
        return;
    free(c->best);
    c->best = gr_strdup(name);
}

/* The first process behind `after`, by name, of these kinds, that has a database in state_dir or runs on another host; the
 * caller frees it. NULL: no process is left. */
static char *process_behind(const struct step *s, const char *after,
                            const char *kinds)
{
    DIR *folder = opendir(s->q->d.settings->state_dir);
    struct choice c = {after, kinds, NULL};
    struct dirent *file;
    const char *name;
    size_t at = 0;

    while (folder && (file = readdir(folder))) {
        size_t n = strlen(file->d_name);

        if (n > 3 && strcmp(file->d_name + n - 3, ".db") == 0) {
            file->d_name[n - 3] = 0;
            consider(&c, file->d_name);
        }
    }
    if (folder)
        closedir(folder);
    while (asks_hosts(s->q) && (name = cluster_asked(s->q->d.cluster, &at)))
        consider(&c, name);
    return c.best;
}

static void send_question(struct step *s, const char *process,
                          const char *phase, const json_t *ids)
{
    json_t *args = json_pack("{s:s,s:s,s:I}", "phase", phase, "hash", s->hash,
                             "position", (json_int_t)number(s, "position"));

    if (s->name)
        json_object_set_new(args, "workspace", json_string(s->name));
    if (is_elsewhere(s->q, process)) {
        char key[ERASURE_KEY_DIGITS + 1];

        erasures_key(s->q->d.erasures, key);
        json_object_set_new(args, "key", json_string(key));
        explicit_bzero(key, sizeof key);
    }
    if (ids)
        json_object_set(args, "ids", (json_t *)(uintptr_t)ids);
    s->e->asked_ms = s->q->d.loop.mono_ms;
    s->e->asked = control_send(s->q->d.settings->run_dir, process,
                               command_erase.name, args, NULL, 0);
    json_decref(args);
}

static void say_waits(struct step *s, const char *process, const char *why)
{
    char *error = gr_printf("waits for %s: %s", process, why);

    job_set_error(s->job, error);
    free(error);
}

/* Asks a process for its part. The reply, the caller's; NULL: it is not there yet, and *wait_ms says
 * how long to wait. */
static json_t *ask(struct step *s, const char *process, const char *phase,
                   const json_t *ids, int *wait_ms)
{
    struct erasing *e = s->e;
    char *question = gr_printf("%s %s %s %lld %lld", s->hash, process, phase,
                               (long long)number(s, "position"),
                               (long long)number(s, "n"));
    bool unreachable, away;
    json_t *reply = NULL;
    char why[200] = "";

    if (!e->question || strcmp(question, e->question) != 0) {
        forget_question(e);
        e->question = question;
        send_question(s, process, phase, ids);
        return NULL;
    }
    free(question);
    away = s->q->d.loop.mono_ms - e->asked_ms >= REPLY_MS;
    if (e->asked && !(zsock_events(e->asked) & ZMQ_POLLIN) && !away)
        return NULL;
    if (away) {
        snprintf(why, sizeof why, "it does not respond");
        zsock_destroy(&e->asked);
    } else if (e->asked) {
        reply = control_take(e->asked, &unreachable, why);
        e->asked = NULL;
    }
    forget_question(e);
    if (!reply) {
        say_waits(s, process, why);
        *wait_ms = AGAIN_MS;
    } else if (*s->job->last_error) {
        job_set_error(s->job, "");
    }
    return reply;
}

/* One process after the other does its part of a phase; then `next` begins. */
static int each_process(struct step *s, const char *phase, const char *kinds,
                        const char *next)
{
    char *process = process_behind(s, text(s, "at"), kinds);
    int wait_ms = 0;
    json_t *reply, *rows;

    if (!process) {
        begin_phase(s, next);
        return 0;
    }
    if (strcmp(phase, "handed") == 0)
        set_number(s, "position",
                   json_integer_value(json_object_get(
                       json_object_get(s->at, "rows"), process)));
    reply = ask(s, process, phase, NULL, &wait_ms);
    if (reply && json_is_true(json_object_get(reply, "done"))) {
        if (strcmp(phase, "refuse") == 0) {
            rows = json_object_get(s->at, "rows");
            json_object_set(rows, process, json_object_get(reply, "position"));
        }
        json_object_set_new(s->at, "at", json_string(process));
        set_number(s, "position", 0);
    } else if (reply) {
        int64_t position = json_integer_value(
            json_object_get(reply, "position"));
        const char *waits_for = json_string_value(
            json_object_get(reply, "waits_for"));

        if (waits_for)
            say_waits(s, process, waits_for);
        if (position && position == number(s, "position"))
            wait_ms = AGAIN_MS; /* it waits for something itself */
        set_number(s, "position", position);
    }
    s->job->done += json_integer_value(json_object_get(reply, "changed"));
    json_decref(reply);
    free(process);
    return wait_ms;
}

/* ---- deliveries ---- */

/* Ends open deliveries of an event, at most `max`. Returns how many. */
static int drop_deliveries(struct sequencer *q, int64_t event, int max)
{
    int64_t endpoints[DROPS_AT_ONCE];
    int count = deliveries_open_of_event(q->deliveries, event, max, endpoints);
    int dropped = 0;
    struct delivery d;

    for (int i = 0; i < count; i++) {
        struct endpoint *e = endpoint_by_id(q, endpoints[i]);

        if (e && delivery_load(q->deliveries, event, e->id, &d)) {
            delivery_move(
                q, e, &d, DELIVERY_DEAD,
                &(struct delivery_cause){.reason = "abandoned",
                                         .error = "its workspace is erased"});
            delivery_fini(&d);
            dropped++;
        }
    }
    return dropped;
}

/* The same for events. Returns how many events have no open delivery any more; *dropped: how many deliveries were
 * ended. */
static int drop_events(struct sequencer *q, const struct erase_event *events,
                       int count, int *dropped)
{
    int i = 0;

    for (*dropped = 0; i < count; i++) {
        *dropped += drop_deliveries(q, events[i].n, DROPS_AT_ONCE - *dropped);
        if (*dropped == DROPS_AT_ONCE)
            break; /* this event may have more */
    }
    return i;
}

/* The events of the workspace end: none is sent any more. */
static int drop_step(struct step *s)
{
    struct erase_event events[PAGE_EVENTS];
    int64_t after = number(s, "n"), looked_at;
    int count, done, dropped;

    if (!after && s->name) {
        store_erase_streams(s->e->store, s->name);
        streams_undo(s->q->streams); /* their copies of the rows */
        operational_events_undo(s->q->operational);
    }
    count = store_erase_events(s->e->store, after, s->name, s->label,
                               PAGE_EVENTS, events, &looked_at);
    done = drop_events(s->q, events, count, &dropped);
    if (done < count)
        set_number(s, "n", events[done].n - 1);
    else if (looked_at > after)
        set_number(s, "n", looked_at);
    else
        begin_phase(s, "events");
    return 0;
}

/* ---- events ---- */

static json_t *ids_of(const struct erase_event *events, int count)
{
    json_t *ids = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(ids, json_string(events[i].id));
    return ids;
}

static bool any_is_out(struct step *s, const struct erase_event *events,
                       int count)
{
    for (int i = 0; i < count; i++)
        if (store_erase_is_out(s->e->store, events[i].n))
            return true;
    return false;
}

/* The page ends where it did when the first process was asked: if an event of it is purged, no other takes its
 * place, as those processes would keep what they have of it. Returns the number of events. */
static int same_page(struct step *s, const struct erase_event *events,
                     int count, int64_t *looked_at)
{
    int64_t end = number(s, "end");

    if (!*text(s, "at") || !end) {
        set_number(s, "end", *looked_at);
    } else if (*looked_at > end) {
        *looked_at = end;
        while (count && events[count - 1].n > end)
            count--;
    }
    return count;
}

/* A page of events: first at the deliverers and ingress, by their ids, then here. A delivery that was final may
 * have been opened again since. */
static int events_step(struct step *s)
{
    struct erase_event events[PAGE_EVENTS];
    int64_t after = number(s, "n"), looked_at;
    int count = store_erase_events(s->e->store, after, s->name, s->label,
                                   PAGE_EVENTS, events, &looked_at),
        wait_ms = 0, dropped;
    char *process;
    json_t *ids, *reply;

    count = same_page(s, events, count, &looked_at);
    drop_events(s->q, events, count, &dropped);
    if (dropped) {
        json_object_set_new(s->at, "at", json_string(""));
        return 0;
    }
    if (any_is_out(s, events, count)) {
        job_set_error(s->job, "waits until deliverers have dropped deliveries");
        return AGAIN_MS;
    }
    process = count ? process_behind(s, text(s, "at"),
                                     PROCESSES_WITH_ARCHIVE " deliverer")
                    : NULL;
    if (process) {
        ids = ids_of(events, count);
        reply = ask(s, process, "events", ids, &wait_ms);
        if (reply)
            json_object_set_new(s->at, "at", json_string(process));
        s->job->done += json_integer_value(json_object_get(reply, "changed"));
        json_decref(reply);
        json_decref(ids);
        free(process);
        return wait_ms;
    }
    db_erasing(s->q->d.db);
    for (int i = 0; i < count; i++) {
        store_body_drop(s->q->store, events[i].n);
        store_erase_event(s->e->store, &events[i], s->label);
        outcomes_changed(s->q, events[i].n);
        s->job->done++;
    }
    json_object_set_new(s->at, "at", json_string(""));
    set_number(s, "n", looked_at);
    if (looked_at != after)
        return 0;
    begin_phase(s, "sent");
    set_number(s, "n", (int64_t)links_next(s->q->d.links, "dlqd") - 1);
    json_object_set_new(s->at, "outcomes", outcomes_last_numbers(s->q));
    return 0;
}

/* Whether it has a database, here or on a host that is asked. */
static bool is_there(struct step *s, const char *process)
{
    char *path = gr_printf("%s/%s.db", s->q->d.settings->state_dir, process);
    bool here = access(path, F_OK) == 0;

    free(path);
    return here || (asks_hosts(s->q) && is_elsewhere(s->q, process));
}

/* The first process that is there and has not taken all outcomes that were on their way;
 * NULL: there is none. */
static const char *behind_with_outcomes(struct step *s)
{
    json_t *all = json_object_get(s->at, "outcomes"), *n;
    const char *name;

    json_object_foreach(all, name, n)
    {
        if ((json_int_t)links_cursor(s->q->d.links, name) <
                json_integer_value(n) &&
            is_there(s, name))
            return name;
    }
    return NULL;
}

/* dlqd has stored all dead letters that were on their way, so that it can erase them; and so have
 * others the outcomes of their events. */
static int sent_step(struct step *s)
{
    const char *behind = behind_with_outcomes(s);

    if (!behind &&
        (int64_t)links_cursor(s->q->d.links, "dlqd") < number(s, "n"))
        behind = "dlqd";
    if (behind) {
        say_waits(s, behind, "it has not taken all messages");
        return AGAIN_MS;
    }
    begin_phase(s, "rest");
    return 0;
}

static int own_step(struct step *s, const json_t *args)
{
    json_t *result;

    int64_t after = number(s, "n");

    db_erasing(s->q->d.db);
    if (s->name && after >= 0) { /* endpoints that were made at run time */
        after = managed_forget_workspace(s->q, s->name, after,
                                         ENDPOINTS_AT_ONCE);
        set_number(s, "n", after ? after : -1);
        return 0;
    }
    if (s->name && store_erase_objects(s->e->store, s->name))
        return 0;
    if (s->name) {
        result = job_result(s->job);
        json_object_set_new(
            result, "last_sequence",
            json_integer(store_erase_workspace(s->e->store, s->name)));
        job_set_result(s->job, result);
        workspaces_clear(&s->q->workspaces);
        forget_name(s->e);
    }
    job_set_args(s->job, /* without the name */
                 json_pack("{s:O*}", "hash", json_object_get(args, "hash")));
    begin_phase(s, "scrub");
    return 0;
}

/* ---- the job ---- */

/* The folders in state_dir that `grapnel restore` has left, with the databases of before. */
static json_t *copies(const struct sequencer *q)
{
    DIR *folder = opendir(q->d.settings->state_dir);
    json_t *out = json_array();
    struct dirent *file;

    while (folder && (file = readdir(folder)))
        if (strncmp(file->d_name, "replaced-", strlen("replaced-")) == 0)
            json_array_append_new(out, json_text_of(file->d_name));
    if (folder)
        closedir(folder);
    return out;
}

static void report(struct step *s)
{
    json_t *result = job_result(s->job);

    json_object_set_new(result, "erased_at", json_time(s->q->d.loop.now_ms));
    json_object_set_new(result, "copies", copies(s->q));
    json_object_set_new(
        result, "backups",
        json_string("backups made before erased_at still have the data: "
                    "delete them, or restore them only where the file "
                    "state_dir/erasures is"));
    json_object_set_new(
        result, "logs",
        json_string("log lines name the workspace until they are rotated"));
    if (s->q->d.settings->cluster.peer_count && !asks_hosts(s->q))
        json_object_set_new(
            result, "other_hosts",
            json_string("deliverers and ingresses on other hosts "
                        "(cluster.peers) still have their part until "
                        "history.keep and ingress.archive.keep have passed: "
                        "with a console in cluster.peers they erase it, too"));
    job_set_result(s->job, result);
}

/* The next one of all erased workspaces. NULL: there is none. */
static const char *hash_behind(const struct sequencer *q, const char *hash)
{
    int64_t at_ms;

    for (size_t i = 0; i < erasures_count(q->d.erasures); i++)
        if (strcmp(erasures_at(q->d.erasures, i, &at_ms), hash) > 0)
            return erasures_at(q->d.erasures, i, &at_ms);
    return NULL;
}

static void end(struct step *s, const json_t *args)
{
    const char *next = json_object_get(args, "hash")
                           ? NULL
                           : hash_behind(s->q, s->hash);

    report(s);
    if (next) {
        json_object_set_new(s->at, "hash", json_string(next));
        json_object_set_new(s->at, "rows", json_object());
        begin_phase(s, "refuse");
        return;
    }
    job_end(s->job, NULL);
}

static int next_step(struct step *s, const json_t *args)
{
    const char *phase = text(s, "phase");

    if (strcmp(phase, "refuse") == 0)
        return each_process(s, "refuse", PROCESSES_WITH_ARCHIVE, "handed");
    if (strcmp(phase, "handed") == 0)
        return each_process(s, "handed", PROCESSES_WITH_ARCHIVE, "drop");
    if (strcmp(phase, "drop") == 0)
        return drop_step(s);
    if (strcmp(phase, "events") == 0)
        return events_step(s);
    if (strcmp(phase, "sent") == 0)
        return sent_step(s);
    if (strcmp(phase, "rest") == 0)
        return each_process(s, "rest", NULL, "own");
    if (strcmp(phase, "own") == 0)
        return own_step(s, args);
    if (strcmp(phase, "scrub") == 0)
        return each_process(s, "scrub", NULL, "end");
    end(s, args);
    return 0;
}

/* For people who wait: the `phase` of the result. */
static void tell_phase(struct step *s)
{
    json_t *result = job_result(s->job);

    json_object_set(result, "phase", json_object_get(s->at, "phase"));
    job_set_result(s->job, result);
}

static int step(void *self, struct job *job, const json_t *args)
{
    struct sequencer *q = self;
    const char *hash = json_string_value(json_object_get(args, "hash"));
    struct step s = {
        .e = q->erasing, .q = q, .job = job, .at = job_position(job)};
    char *was = gr_strdup(job->position), why[200];
    int wait_ms = 0;

    if (!json_object_get(s.at, "hash")) {
        hash = hash ? hash : hash_behind(q, "");
        json_object_set_new(s.at, "hash", json_string(hash ? hash : ""));
        json_object_set_new(s.at, "rows", json_object());
        begin_phase(&s, hash ? "refuse" : "end");
    }
    hash = gr_strdup(text(&s, "hash"));
    s.hash = hash;
    workspace_erased_label(hash, s.label);
    s.name = name_of(q->erasing, hash, args);
    if (*hash &&
        erasures_add(q->d.erasures, hash, q->d.loop.now_ms, why) != GR_OK) {
        job_set_error(job, why);
        wait_ms = AGAIN_MS;
    } else {
        wait_ms = next_step(&s, args);
    }
    tell_phase(&s);
    job_set_position(job, s.at);
    if (strcmp(was, job->position) != 0 && *job->last_error)
        job_set_error(job, "");
    free(was);
    free((char *)(uintptr_t)hash);
    return wait_ms;
}

const struct job_kind workspace_erase_jobs[] = {
    {"workspace_erase", &command_workspace_erase, step, true},
    {0},
};

json_t *workspace_erase_ask(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = json_string_value(json_object_get(args, "workspace"));
    char hash[ERASURE_HASH_BYTES + 1];
    json_t *kept, *out;

    if (strcmp(name, "default") == 0 ||
        strcmp(name, OPERATIONAL_WORKSPACE) == 0 || strchr(name, '*')) {
        control_fail(why, CONTROL_REFUSED,
                     strchr(name, '*')
                         ? "write the name of one workspace, without *"
                         : "%s is the workspace of events without one of their "
                           "own: it cannot be erased",
                     name);
        return NULL;
    }
    if (!store_erase_knows(q->erasing->store, name) &&
        !workspace_erased(q, (struct bytes){name, strlen(name)})) {
        /* The audit keeps the text, so it names no workspace. */
        control_fail(why, CONTROL_NOT_FOUND,
                     "no event, endpoint or token has this workspace: correct "
                     "its name");
        return NULL;
    }
    if (erasures_hash(q->d.erasures, name, hash, why) != GR_OK)
        return NULL;
    kept = json_pack("{s:s,s:s}", "hash", hash, "_workspace", name);
    out = jobs_make(q->d.jobs, "workspace_erase", kept,
                    control_actor(q->d.control), q->d.loop.now_ms, why);
    json_decref(kept);
    return out;
}

bool workspace_erase_owns(void *self, const struct erase_step *s,
                          const char *id)
{
    struct sequencer *q = self;
    char label[ERASED_LABEL_BYTES + 1];
    struct event_row ev = {0};
    bool found;

    workspace_erased_label(s->hash, label);
    found = store_event_by_id(q->store, wire_text(id), &ev) &&
            strcmp(ev.workspace, label) == 0;
    event_fini(&ev);
    return found;
}

void workspace_erase_peer_rewound(struct sequencer *q, const char *peer)
{
    if (is_elsewhere(q, peer))
        erasures_ask_again(q->d.erasures);
}

void workspace_erase_look(struct sequencer *q)
{
    json_t *args, *job;
    char why[200];

    if (!erasures_again(q->d.erasures))
        return;
    if (q->erasing->made_again) { /* and on disk */
        q->erasing->made_again = false;
        erasures_again_done(q->d.erasures);
        return;
    }
    args = json_object();
    job = jobs_make(q->d.jobs, "workspace_erase", args, "grapnel",
                    q->d.loop.now_ms, why);
    q->erasing->made_again = job;
    if (job)
        log_warn(NULL,
                 "a database was restored from an older copy: erased "
                 "workspaces are erased again",
                 LI("count", erasures_count(q->d.erasures)));
    json_decref(args);
    json_decref(job);
}
