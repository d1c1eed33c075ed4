/* daemon: the start, the turn and the stop of every process, and the control commands that all
 * have. */
#include "daemon.h"
#include "clock.h"
#include "commands.h"
#include "config.h"
#include "daemon_health.h"
#include "daemon_metrics.h"
#include "daemon_options.h"
#include "fallback.h"
#include "json_text.h"
#include "log.h"
#include "manager.h"
#include "own_folder.h"
#include "replica.h"
#include "unknown_version.h"
#include "wire.h"
#include <czmq.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ERRORS_MAX_BYTES = 1024 * 1024,
    ERRORS_LOGGED = 100,
    LOCK_TEXT_BYTES = 400,
    FRAMES_PER_TURN = 256,
    LOOK_AT_SOCKETS_MS = 2000,
    RANDOM_AT_ONCE = 128,
    OPEN_MAX_MS =
        5000, /* to open the database before the log says that it takes long */
    STOP_FULL_TURNS =
        20, /* at a full disk, about 5 s: then the process ends all the same */
};

/* Reads many random numbers at a time, as a deliverer needs one for each attempt. A daemon
 * does not fork and only its main thread calls this, so it returns each number once. */
static uint64_t random_bits(void)
{
    static uint64_t drawn[RANDOM_AT_ONCE];
    static size_t left;

    if (left == 0) {
        if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
            die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
        left = RANDOM_AT_ONCE;
    }
    return drawn[--left];
}

uint64_t random_id(void)
{
    uint64_t id = random_bits() & INT64_MAX; /* SQLite's integers are signed */

    return id ? id : 1;
}

/* ---- configuration, folders, lock ---- */

static struct settings *load_or_exit(const char *path)
{
    struct settings *s;
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    s = settings_load(path, &errors);
    if (!s) {
        fwrite(errors.data, 1, errors.len, stderr);
        exit(EXIT_CONFIG);
    }
    buf_fini(&errors);
    return s;
}

static void make_folder(const char *path, const char *key)
{
    char *trouble = own_folder_trouble(path);
    struct stat st;

    if (trouble)
        die(EXIT_CONFIG, "%s: %s", key, trouble);
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || stat(path, &st) != 0)
        die(EXIT_CONFIG, "%s: cannot create %s: %s", key, path,
            strerror(errno));
    if (access(path, W_OK | X_OK) != 0)
        die(EXIT_CONFIG, "%s: this user cannot write to %s", key, path);
    if (st.st_uid != geteuid())
        die(EXIT_CONFIG,
            "%s: %s belongs to user %u, and this process runs as user %u: "
            "change the owner, or choose another folder",
            key, path, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        die(EXIT_CONFIG,
            "%s: other users may write to %s (mode %04o): run chmod 0700 on "
            "it, or choose another folder",
            key, path, (unsigned)st.st_mode & 07777);
}

/* Held until the process ends, however it ends: a second instance would take over the
 * sockets of this one without an error. `text`: what the start before this one wrote there. */
static int take_lock(const char *state_dir, const char *name,
                     char text[LOCK_TEXT_BYTES])
{
    char *path = gr_printf("%s/%s.lock", state_dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool locked;
    ssize_t n;

    if (fd < 0 && errno == ELOOP)
        die(EXIT_CONFIG,
            "%s is a symbolic link; a lock file must not be one: remove it",
            path);
    if (fd < 0)
        die(EXIT_STORAGE, "%s: %s", path, strerror(errno));
    locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    n = pread(fd, text, LOCK_TEXT_BYTES - 1, 0);
    text[n > 0 ? n : 0] = 0;
    if (!locked) {
        text[strcspn(text, "\n")] = 0;
        die(EXIT_UNAVAILABLE,
            "another %s is running (process %s holds %s): stop it, or start "
            "this one with another --name",
            name, text, path);
    }
    if (ftruncate(fd, 0) != 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
        log_warn(NULL, "the lock could not be written", LS("file", path));
    free(path);
    return fd;
}

/* An interrupted restore: some databases are present ones, some from the backup, some missing. */
static void refuse_unfinished_restore(const char *state_dir)
{
    char *path = gr_printf("%s/restore.unfinished", state_dir);

    if (access(path, F_OK) == 0)
        die(EXIT_STORAGE,
            "a `grapnel restore` was interrupted (%s is there): run it again, "
            "then start",
            path);
    free(path);
}

/* ---- control commands that every daemon has ---- */

static json_t *links_json(struct daemon *d)
{
    json_t *out = json_array();
    struct link_state l;
    int at = 0;

    while (links_each(d->links, &at, &l))
        json_array_append_new(
            out,
            json_pack(
                "{s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "peer", l.peer, "direction",
                l.out ? "out" : "in", "backlog",
                (json_int_t)(l.out ? l.next - 1 - l.done : l.next - l.done),
                "done", (json_int_t)l.done, "lost", (json_int_t)l.lost,
                "set_back", (json_int_t)l.rewinds, "unprocessable",
                (json_int_t)l.unprocessable));
    return out;
}

static json_t *on_status(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;
    char at[RFC3339_BYTES];
    json_t *out;

    (void)args;
    (void)why;
    daemon_measure(d);
    rfc3339(at, d->started_ms);
    out = json_pack("{s:s,s:s,s:s,s:i,s:s,s:I,s:o,s:o,s:o,s:o,s:o}", "process",
                    d->name, "kind", d->plan->process, "version",
                    GRAPNEL_VERSION, "pid", (int)getpid(), "started_at", at,
                    "uptime_ms", (json_int_t)(now_ms() - d->started_ms),
                    "store", daemon_health_store(d), "links", links_json(d),
                    "metrics", metrics_json(d->metrics), "rates",
                    metrics_rates_json(d->metrics, d->loop.mono_ms), "series",
                    metrics_series_json(d->metrics));
    if (out && d->replica)
        json_object_set_new(out, "replication", replica_json(d->replica));
    if (out && d->plan->status)
        d->plan->status(d->plan->self, out);
    return out;
}

/* ---- reload ---- */

/* The configuration that this process would read now, compared with the one in use. */
struct fresh {
    struct settings *settings; /* NULL: `errors` */
    struct string_list errors, unset, changed, restart;
};

static void split_lines(const struct buf *b, struct string_list *out)
{
    const char *at = b->data, *end = b->data + b->len;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        char *line = gr_strndup(at, n);

        string_list_add(out, line);
        free(line);
        at += n + 1;
    }
}

static void fresh_read(struct fresh *f, const struct daemon *d)
{
    struct buf errors;

    *f = (struct fresh){0};
    buf_init(&errors, ERRORS_MAX_BYTES);
    f->settings = settings_load_here(d->config_path, &errors, &f->unset);
    split_lines(&errors, &f->errors);
    buf_fini(&errors);
    if (f->settings)
        settings_compare(d->settings, f->settings, d->plan->process,
                         &f->changed, &f->restart);
}

static void fresh_fini(struct fresh *f)
{
    settings_free(f->settings);
    string_list_fini(&f->errors);
    string_list_fini(&f->unset);
    string_list_fini(&f->changed);
    string_list_fini(&f->restart);
}

/* Puts it into effect; false: it has errors. */
static bool take_over(struct daemon *d, struct fresh *f)
{
    struct settings *old = d->settings;
    const struct settings *present = f->settings ? f->settings : old;

    /* Also when the new configuration has errors, because logrotate relies on it. */
    log_set(present->log_level, present->log_json);
    log_errors_to(present->log_errors);
    if (!f->settings) {
        log_warn(NULL,
                 "the new configuration has errors; the process keeps the old "
                 "one",
                 LI("errors", f->errors.count));
        for (size_t i = 0; i < f->errors.count && i < ERRORS_LOGGED; i++)
            log_warn(NULL, "the configuration has an error",
                     LS("error", f->errors.items[i]));
        return false;
    }
    settings_keep_start_values(old, f->settings);
    if (d->db) { /* not a standby */
        cluster_reload(d->cluster, f->settings);
        mailbox_rejoin(d->mailbox);
        control_rejoin(d->control);
        if (d->plan->reload)
            d->plan->reload(d->plan->self, f->settings);
    }
    if (d->replica)
        replica_reload(d->replica, f->settings);
    d->settings = f->settings;
    f->settings = NULL;
    settings_free(old);
    log_info(NULL, "configuration reloaded", LS("file", d->config_path),
             LI("changes", f->changed.count),
             LI("warnings", d->settings->warnings.count));
    for (size_t i = 0; i < f->restart.count; i++)
        log_warn(NULL,
                 "this key changed; the change takes effect after a restart",
                 LS("key", f->restart.items[i]));
    return true;
}

/* Reads it and puts it into effect; false: it has errors. */
static bool reload(struct daemon *d, struct fresh *f)
{
    bool reloaded;

    manager_reloading();
    fresh_read(f, d);
    reloaded = take_over(d, f);
    manager_ready(); /* with the old one, too */
    return reloaded;
}

static void on_hup(void *self)
{
    struct daemon *d = self;
    struct fresh f;

    reload(d, &f);
    fresh_fini(&f);
}

static json_t *list_json(const struct string_list *l)
{
    json_t *out = json_array();

    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(out, json_text_of(l->items[i]));
    return out;
}

/* `variables`: the environment variables in use, also when there are errors. */
static json_t *fresh_json(const struct daemon *d, const struct fresh *f,
                          bool reloaded)
{
    const struct settings *s = f->settings ? f->settings : d->settings;

    return json_pack("{s:s,s:b,s:o,s:o,s:o,s:o,s:o,s:o}", "file",
                     d->config_path, "reloaded", (int)reloaded, "errors",
                     list_json(&f->errors), "warnings",
                     list_json(f->settings ? &f->settings->warnings
                               : reloaded  ? &s->warnings
                                           : &(struct string_list){0}),
                     "unset", list_json(&f->unset), "changed",
                     list_json(&f->changed), "restart", list_json(&f->restart),
                     "variables", list_json(&s->variables));
}

static json_t *on_check(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;
    struct fresh f;
    json_t *out;

    (void)args;
    (void)why;
    fresh_read(&f, d);
    out = fresh_json(d, &f, false);
    fresh_fini(&f);
    return out;
}

static json_t *on_reload(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;
    struct fresh f;
    bool reloaded;
    json_t *out;

    (void)args;
    (void)why;
    reloaded = reload(d, &f);
    if (reloaded && d->plan->begin) /* the same turn may be asked for more */
        d->plan->begin(d->plan->self);
    out = fresh_json(d, &f, reloaded);
    fresh_fini(&f);
    return out;
}

static json_t *on_backup(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;
    const char *path = json_string_value(json_object_get(args, "path"));

    if (*path != '/') {
        control_fail(why, CONTROL_INVALID,
                     "args.path must be an absolute path");
        return NULL;
    }
    if (control_waiting(d->control)) {
        control_fail(why, CONTROL_IN_PROGRESS,
                     "a backup or a verification is already in progress");
        return NULL;
    }
    if (db_backup_start(d->db, path, why) != GR_OK)
        return NULL;
    d->backup_path = gr_strdup(path);
    return control_later(d->control);
}

/* Copies a few pages between two turns. */
static void backup_step(struct daemon *d)
{
    char why[200] = "the copy is gone";
    struct stat st;
    gr_rc rc;

    if (db_backup_wait_ms(d->db) != 0)
        return;
    rc = db_backup_step(d->db, why);
    if (rc == GR_AGAIN)
        return;
    if (rc == GR_OK && stat(d->backup_path, &st) == 0)
        control_reply(d->control,
                      json_pack("{s:s,s:I}", "path", d->backup_path, "bytes",
                                (json_int_t)st.st_size),
                      NULL);
    else
        control_reply(d->control, NULL, why);
    free(d->backup_path);
    d->backup_path = NULL;
}

/* It stops, and the standby on `host` takes over. */
static void hand_over(struct daemon *d, const char *host)
{
    d->heir = gr_strdup(host); /* until the process ends */
    d->loop.stopping = true;
}

static json_t *on_handover(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;
    const char *host = json_string_value(json_object_get(args, "host"));

    if (!d->replica) {
        control_fail(why, CONTROL_REFUSED, "its database is not replicated");
        return NULL;
    }
    if (d->loop.stopping) {
        control_fail(why, CONTROL_REFUSED, "it stops already");
        return NULL;
    }
    if (!replica_can_hand_over(d->replica, host, why))
        return NULL;
    log_info(NULL, "handing the store over", LS("to", host));
    hand_over(d, host);
    return json_pack("{s:s}", "host", host);
}

static json_t *on_names(void *self, json_t *args, char why[200])
{
    struct daemon *d = self;

    (void)args;
    (void)why;
    return settings_names(d->settings);
}

static const struct control_command common_commands[] = {
    {&command_status, on_status},       {&command_health, daemon_health_ask},
    {&command_names, on_names},         {&command_check, on_check},
    {&command_reload, on_reload},       {&command_backup, on_backup},
    {&command_handover, on_handover},   {&command_verify, daemon_verify_ask},
    {&command_erase, daemon_erase_ask}, {0},
};

static const struct control_command job_commands[] = {
    {&command_jobs, jobs_ask_list},
    {&command_job, jobs_ask},
    {&command_job_cancel, jobs_ask_cancel},
    {0},
};

/* ---- the turn ---- */

static void take_frame(struct daemon *d, struct bytes frame, bool *full)
{
    int kind = wire_kind(frame);
    struct wire_head other;

    if (wire_is_unknown_version(&other, frame))
        unknown_version_warn(other.from, &other);
    else if (kind == WIRE_KIND_BATCH || kind == WIRE_KIND_ACKED ||
             kind == WIRE_KIND_EPOCHS) {
        gr_rc rc = links_receive(d->links, frame);

        *full = rc == GR_AGAIN;
        if (rc == GR_REFUSE)
            log_warn(NULL, "invalid frame on a durable link; dropped",
                     LS("kind", wire_kind_name(kind)),
                     LI("frame_bytes", frame.n));
    } else if (kind && d->plan->frame) {
        d->plan->frame(d->plan->self, kind, frame);
    } else {
        log_warn(NULL, "invalid frame; dropped", LI("frame_bytes", frame.n));
    }
}

/* Take frames of one inbox, `min` in any case. true: it is empty. */
static bool take_from(struct daemon *d, zframe_t *(*take)(struct mailbox *),
                      int min, bool *full)
{
    zframe_t *frame;

    for (int i = 0; i < FRAMES_PER_TURN && !*full; i++) {
        if (i >= min && (links_taken_count(d->links) >= TURN_MAX_COUNT ||
                         links_taken_bytes(d->links) >= TURN_MAX_BYTES ||
                         loop_spent(&d->loop)))
            return false;
        frame = take(d->mailbox);
        if (!frame)
            return true;
        take_frame(d, (struct bytes){zframe_data(frame), zframe_size(frame)},
                   full);
        zframe_destroy(&frame);
    }
    return false;
}

static bool inboxes_ready(const struct daemon *d)
{
    zsock_t *inboxes[MAILBOX_SOCKETS];
    int n = mailbox_sockets(d->mailbox, inboxes);

    for (int i = 0; i < n; i++)
        if (loop_socket_ready(&d->loop, inboxes[i]))
            return true;
    return false;
}

/* Bounded; true: there may be more. The priority inbox is read first. At least one frame
 * of the other inbox is taken in any case, so that neither starves. */
static bool take_frames(struct daemon *d)
{
    bool full = links_resume(d->links) == GR_AGAIN;
    bool none = !full && !inboxes_ready(d), has_time;

    d->priority_empty = none || take_from(d, mailbox_take_priority, 0, &full);
    has_time = !d->plan->has_time || d->plan->has_time(d->plan->self);
    d->inbox_empty = none ||
                     (has_time && take_from(d, mailbox_take, 1, &full) &&
                      d->priority_empty);
    return !d->inbox_empty;
}

static void check_stopped(struct daemon *d)
{
    if (!d->loop.stopping || control_reply_due(d->control))
        return;
    if (d->plan->stopped && !d->plan->stopped(d->plan->self))
        return;
    links_stopped(d->links);
    db_note_written(d->db, d->loop.now_ms, true);
    retention_work(&d->retention, d->db, d->loop.now_ms, true);
    d->loop.done = true;
}

void daemon_wake_in(struct daemon *d, int ms)
{
    d->wait_ms = loop_sooner(d->wait_ms, ms);
}

static int work(void *self)
{
    struct daemon *d = self;
    bool more;

    metrics_begin(d->metrics);
    cluster_work(d->cluster);
    if (d->plan->begin)
        d->plan->begin(d->plan->self);
    more = take_frames(d);
    more = control_work(d->control, &d->loop) || more;
    d->wait_ms = d->plan->work ? d->plan->work(d->plan->self) : -1;
    d->wait_ms = loop_sooner(d->wait_ms, jobs_work(d->jobs, &d->loop));
    links_work(d->links);
    if (metrics_due(d->metrics, d->loop.mono_ms))
        daemon_measure(d);
    check_stopped(d);
    db_note_written(d->db, d->loop.now_ms, false);
    retention_work(&d->retention, d->db, d->loop.now_ms, false);
    acts_work(d->acts, d->loop.mono_ms, d->loop.now_ms);
    if (more) {
        d->wait_ms = 0;
        d->loop.may_wait_us = 0;
    }
    return 0; /* after_commit() knows how long */
}

static const char *const socket_kinds[DAEMON_SOCKETS] = {"control", "metrics"};

static void know_socket_files(struct daemon *d)
{
    for (int i = 0; i < DAEMON_SOCKETS; i++)
        d->socket_files[i] = ipc_file(d->settings->run_dir, d->name,
                                      socket_kinds[i]);
}

/* Somebody may have deleted run_dir. Processes that are connected go on, but one that starts, and the command line, could not connect. */
static void keep_sockets(struct daemon *d)
{
    const char *run_dir = d->settings->run_dir;
    int64_t left_ms = d->sockets_ms + LOOK_AT_SOCKETS_MS - d->loop.mono_ms;
    int inboxes, control, metrics;

    if (d->loop.stopping)
        return;
    if (left_ms > 0 && left_ms <= LOOK_AT_SOCKETS_MS) {
        d->wait_ms = loop_sooner(d->wait_ms, (int)left_ms);
        return;
    }
    d->sockets_ms = d->loop.mono_ms;
    d->wait_ms = loop_sooner(d->wait_ms, LOOK_AT_SOCKETS_MS);
    (void)mkdir(run_dir, 0700);
    inboxes = mailbox_bind_again(d->mailbox);
    control = control_bind_again(d->control, run_dir);
    metrics = daemon_metrics_bind_again(d);
    if (inboxes < 0 || control < 0 || metrics < 0) {
        if (!d->sockets_lost)
            log_error(NULL,
                      "sockets of this process were deleted and cannot be "
                      "bound again: it cannot be reached. Make run_dir again",
                      LS("run_dir", run_dir));
        d->sockets_lost = true;
        return;
    }
    d->sockets_lost = false;
    if (control + metrics)
        know_socket_files(d);
    if (inboxes + control + metrics)
        log_warn(
            NULL, "sockets of this process were deleted; they are bound again",
            LS("run_dir", run_dir), LI("sockets", inboxes + control + metrics));
}

static void look_around(struct daemon *d)
{
    char heir[ENGINE_HOST_BYTES];

    if (!d->replica || d->loop.stopping)
        return;
    if (replica_is_alone(d->replica, heir))
        hand_over(d, heir);
    d->wait_ms = loop_sooner(d->wait_ms, replica_look_ms(d->replica));
}

static void after_commit(void *self)
{
    struct daemon *d = self;

    backup_step(d);
    d->wait_ms = loop_sooner(d->wait_ms, daemon_verify_step(d));
    if (d->plan->after_commit)
        d->plan->after_commit(d->plan->self);
    d->wait_ms = loop_sooner(d->wait_ms, links_flush(d->links));
    acts_flush(d->acts);
    control_flush(d->control);
    daemon_measure_turn(d);
    if (d->loop.commit_us >= 0)
        d->commit_us = d->loop.commit_us;
    d->wait_ms = loop_sooner(d->wait_ms,
                             metrics_flush(d->metrics, d->loop.mono_ms));
    d->wait_ms = loop_sooner(d->wait_ms, daemon_health_turn(d));
    look_around(d);
    keep_sockets(d);
    if (control_reply_due(d->control))
        d->wait_ms = d->loop.may_wait_us = 0;
    d->wait_ms = loop_sooner(d->wait_ms, db_backup_wait_ms(d->db));
    if (d->loop.stopping)
        d->wait_ms = loop_sooner(d->wait_ms, 20);
    d->loop.wait_ms = d->wait_ms;
}

bool daemon_waits_for_engine(const struct daemon *d)
{
    return d->replica && replica_waits(d->replica);
}

static void waits(const struct daemon *d)
{
    int64_t now = mono_ms(), since_ms = d->loop.disk_ms;
    bool engine = since_ms && now - since_ms >= SECOND_MS &&
                  daemon_waits_for_engine(d);

    manager_waits(now, since_ms,
                  engine ? "the replication database" : "the disk");
}

/* While the loop waits for the engine: nothing is sent that could tell of an unacknowledged turn, but clients should not
 * wait in vain, and the console should know why this process is silent. */
static void refuse(void *self)
{
    struct daemon *d = self;
    int64_t now = mono_ms();
    char why[200];

    replica_waits_why(d->replica, d->loop.disk_ms, why);
    control_refuse(d->control, why);
    metrics_say_waiting(d->metrics, now - d->loop.disk_ms, now);
}

/* While a thread commits, or, in the fallback thread, while the loop waits for the disk. */
static void meanwhile(void *self)
{
    struct daemon *d = self;

    if (d->plan->meanwhile)
        d->plan->meanwhile(d->plan->self);
    waits(d);
}

/* Between the write and the end of a commit's sync. */
static bool read_request(void *self)
{
    const struct daemon *d = self;

    return control_read(d->control);
}

static bool requests_wait(void *self)
{
    const struct daemon *d = self;

    return control_waits(d->control);
}

/* In the fallback thread of a process that has nothing else to do there. */
static void watch_disk(void *self)
{
    struct daemon *d = self;

    waits(d);
}

static int full_peers(void *self, zmq_pollitem_t *items, int max)
{
    struct daemon *d = self;

    return mailbox_full(d->mailbox, items, max);
}

static void undo(void *self)
{
    struct daemon *d = self;

    d->loop.done = false;
    if (d->loop.stopping && ++d->full_turns > STOP_FULL_TURNS) {
        replica_release(d->replica, d->heir); /* no turn is open */
        die(EXIT_STORAGE,
            "%s: the disk is full, so the last changes could not be stored "
            "before the stop; the process repeats them after the next start",
            db_path(d->db));
    }
    links_undo(d->links);
    metrics_undo(d->metrics);
    retention_undo(&d->retention);
    acts_undo(d->acts);
    jobs_undo(d->jobs);
    if (d->plan->undo)
        d->plan->undo(d->plan->self);
    control_undo(d->control);
    daemon_health_full(d);
    daemon_health_turn(d);
}

/* ---- start and run ---- */

/* Opening a database may take long (a large WAL, a new schema). No socket is bound yet, so
 * only the log can report it. The process asks the service manager for more time: if the
 * manager ended it, the work would start from the beginning. */
static void warn_slow_open(void *path)
{
    log_warn(NULL, "opening the database takes long; the disk may be stalled",
             LS("file", path));
    manager_starting("opening the database");
}

/* The time from the takeover to the first turn counts as a turn of the loop, which hangs if SQLite does nothing. */
static void start_goes_on(void *replicator)
{
    replicator_in_turn(replicator, true);
}

static void open_db(struct daemon *d, char *path)
{
    struct fallback *fallback = fallback_open(warn_slow_open, path, OPEN_MAX_MS,
                                              MANAGER_EXTEND_EVERY_MS);

    fallback_begin(fallback);
    d->db = db_open_watched(path, d->plan->schema,
                            d->loop.replicator ? start_goes_on : NULL,
                            d->loop.replicator);
    fallback_end(fallback);
    fallback_close(fallback);
}

/* Of a standby: it serves nobody, so only its log and its own configuration change. A configuration with errors would end the start when it takes over,
 * so the old one is kept. */
static const struct settings *reload_standby(void *self)
{
    struct daemon *d = self;
    struct fresh f;

    manager_reloading();
    fresh_read(&f, d);
    take_over(d, &f);
    fresh_fini(&f);
    manager_ready();
    return d->settings;
}

/* A standby may have waited for months. */
static void read_configuration_again(struct daemon *d)
{
    struct fresh f;

    fresh_read(&f, d);
    if (f.changed.count || f.restart.count || !f.settings)
        take_over(d, &f);
    fresh_fini(&f);
}

/* With `replicate` it returns when this process owns the store, which may be never. */
static void open_store(struct daemon *d, int lock_fd, const char *lock_text)
{
    char *path = gr_printf("%s/%s.db", d->settings->state_dir, d->name);

    if (d->plan->replicated && replica_wanted(d->settings, d->name, path)) {
        const struct replica_start start = {.settings = d->settings,
                                            .name = d->name,
                                            .db_path = path,
                                            .lock_fd = lock_fd,
                                            .lock_text = lock_text,
                                            .signal_fd = d->loop.signal_fd,
                                            .schema = d->plan->schema->count,
                                            .reload = reload_standby,
                                            .self = d};
        struct db_replication turns;

        d->replica = replica_become_owner(&start);
        d->loop.replicator = replica_replicator(d->replica);
        read_configuration_again(d);
        open_db(d, path);
        turns = replicator_turns(d->loop.replicator);
        db_replicate(d->db, &turns);
    } else {
        open_db(d, path);
    }
    free(path);
}

static void starting(void *self)
{
    (void)self;
    manager_starting("reading its database");
}

static void open_plan(struct daemon *d)
{
    struct fallback *fallback;

    if (!d->plan->open)
        return;
    fallback = fallback_open(starting, NULL, OPEN_MAX_MS,
                             MANAGER_EXTEND_EVERY_MS);
    fallback_begin(fallback);
    d->plan->open(d->plan->self);
    fallback_end(fallback);
    fallback_close(fallback);
}

/* A peer with newer rows notices an older copy at the first contact. After a restore of
 * all processes no peer has newer rows, so each start from a copy handles it here. */
static void begin_as_copy(struct daemon *d)
{
    int64_t since_ms = db_copied_ms(d->db);

    log_warn(NULL,
             "this database is a restored copy: data stored after the copy was "
             "made is lost here, unless another process still has it",
             /* 1: unknown, then the field is left out */
             LT("since_at", since_ms > 1 ? since_ms : 0),
             LS("file", db_path(d->db)),
             LS("copied_by", db_stamped(d->db) ? "grapnel" : "something else"));
    erasures_ask_again(d->erasures);
    db_begin(d->db);
    links_restored(d->links);
    if (d->plan->restored)
        d->plan->restored(d->plan->self);
    acts_restored(d->acts, d->started_ms, since_ms, db_stamped(d->db),
                  db_restored_by(d->db), db_restored_from(d->db));
    db_adopt(d->db);
    if (db_commit(d->db) != GR_OK)
        die(EXIT_STORAGE,
            "%s: the disk is full; a restored copy needs free space to start: "
            "free disk space, then start again",
            db_path(d->db));
}

static void watch_inboxes(struct daemon *d)
{
    zsock_t *inboxes[MAILBOX_SOCKETS];
    int n = mailbox_sockets(d->mailbox, inboxes);

    for (int i = 0; i < n; i++) {
        int w = loop_watch_socket(&d->loop, inboxes[i]);

        d->loop.watch[w].patient = mailbox_is_priority(d->mailbox, inboxes[i]);
    }
    if (d->cluster)
        loop_watch_socket(&d->loop, cluster_socket(d->cluster));
}

static void join_consoles(struct daemon *d)
{
    if (!d->cluster || d->plan->asks_hosts)
        return;
    loop_watch_socket(&d->loop, control_join(d->control, d->cluster));
    metrics_also(d->metrics, control_publish, d->control);
}

/* Of a console: the process was on another host, and now it is here (console/run_sockets.h). */
static void know_sockets(struct daemon *d)
{
    char *path = gr_printf("%s/%s.host", d->settings->run_dir, d->name);

    unlink(path);
    free(path);
    know_socket_files(d);
}

void daemon_start(struct daemon *d, const struct daemon_plan *plan, int argc,
                  char **argv)
{
    struct daemon_options o = daemon_options_read(plan, argc, argv);
    char lock_text[LOCK_TEXT_BYTES];
    int lock_fd;

    *d = (struct daemon){.plan = plan};
    loop_prepare(&d->loop); /* a SIGHUP from here on is kept */
    d->settings = load_or_exit(o.config);
    if (o.check) {
        for (size_t i = 0; i < d->settings->warnings.count; i++)
            fprintf(stderr, "%s\n", d->settings->warnings.items[i]);
        printf("%s: no errors\n", d->settings->path);
        exit(0);
    }
    d->config_path = gr_strdup(d->settings->path);
    wire_copy(d->name, sizeof d->name, wire_text(o.name));
    log_open(d->name, d->settings->log_level, d->settings->log_json);
    umask(0077);
    log_errors_to(d->settings->log_errors);
    if (d->settings->warnings.count)
        log_warn(NULL,
                 "the configuration has warnings; `grapnel check` shows them",
                 LI("warnings", d->settings->warnings.count));
    manager_open();
    make_folder(d->settings->state_dir, "state_dir");
    make_folder(d->settings->run_dir, "run_dir");
    lock_fd = take_lock(d->settings->state_dir, d->name, lock_text);
    refuse_unfinished_restore(d->settings->state_dir);
    open_store(d, lock_fd, lock_text);
    d->epoch = random_id();
    d->started_ms = now_ms();
    d->commit_us = -1;
    retention_open(&d->retention, d->db, d->started_ms);
    d->cluster = cluster_open(d->settings, d->name);
    d->mailbox = mailbox_open(d->settings->run_dir, d->name);
    if (plan->priority_inbox)
        mailbox_open_priority(d->mailbox);
    if (!plan->asks_hosts)
        mailbox_join(d->mailbox, d->cluster);
    d->links = links_open(d->db, d->mailbox, plan->links, d->epoch, plan->self);
    d->control = control_open(d->settings->run_dir, d->name);
    audit_keys_load(&d->audit_keys, d->settings);
    d->acts = acts_open(d->db, &d->retention, d->name, &d->audit_keys);
    control_add(d->control, common_commands, d);
    control_record(d->control, d->acts);
    d->erasures = erasures_open(d->settings->state_dir);
    d->jobs = jobs_open(d->db, d->acts, d->name, plan->jobs, plan->self);
    control_add(d->control, job_commands, d->jobs);
    if (plan->commands)
        control_add(d->control, plan->commands, plan->self);
    control_expect(d->control, plan->process);
    daemon_metrics_open(d);
    know_sockets(d);
    daemon_verify_open(d);
    d->loop.self = d;
    d->loop.db = d->db;
    d->loop.work = work;
    d->loop.after_commit = after_commit;
    d->loop.meanwhile = meanwhile;
    if (!plan->meanwhile) { /* that of ingress may run in another thread */
        d->loop.read = read_request;
        d->loop.reads_wait = requests_wait;
    }
    d->loop.during_stall = plan->stands_in     ? meanwhile
                           : manager_watches() ? watch_disk
                                               : NULL;
    d->loop.undo = undo;
    d->loop.refuse = refuse;
    d->loop.reload = on_hup;
    d->loop.more_items = full_peers;
    watch_inboxes(d);
    loop_watch_socket(&d->loop, control_socket(d->control));
    join_consoles(d);
    open_plan(d);
    if (db_copied_ms(d->db))
        begin_as_copy(d);
    acts_begin(d->acts, d->started_ms);
}

/* ZeroMQ leaves the socket files. A process without the file has stopped in order; one that
 * left it counts as missing (console/forward.c, ctl/processes/ask.c). A console may have put
 * its own in their place, if this process hung and runs on another host now. */
static void take_sockets_away(const struct daemon *d)
{
    for (int i = 0; i < DAEMON_SOCKETS; i++)
        ipc_remove(d->settings->run_dir, d->name, socket_kinds[i],
                   d->socket_files[i]);
}

int daemon_run(struct daemon *d)
{
    log_info(NULL, "ready", LS("version", GRAPNEL_VERSION),
             LS("file", db_path(d->db)), LI("pid", getpid()));
    replica_started(d->replica);
    db_unwatch(d->db);
    manager_ready();
    loop_run(&d->loop);
    if (d->plan->close)
        d->plan->close(d->plan->self);
    replica_release(d->replica, d->heir);
    metrics_close(d->metrics);
    daemon_verify_close(d);
    control_close(d->control);
    acts_close(d->acts);
    jobs_close(d->jobs);
    audit_keys_fini(&d->audit_keys);
    erasures_close(d->erasures);
    links_close(d->links);
    mailbox_close(d->mailbox);
    cluster_close(d->cluster);
    take_sockets_away(d);
    db_close(d->db);
    replica_close(d->replica);
    settings_free(d->settings);
    free(d->config_path);
    log_info(NULL, "stopped");
    manager_close();
    return d->heir ? EXIT_FENCED : 0;
}
