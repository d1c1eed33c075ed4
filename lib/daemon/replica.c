/* replica: the start of a replicated process, as a standby until it owns the store, and its end. */
#include "replica.h"
#include "alone.h"
#include "clock.h"
#include "config.h"
#include "engine_check.h"
#include "follower.h"
#include "json_text.h"
#include "log.h"
#include "manager.h"
#include "permission.h"
#include "position_file.h"
#include "reach.h"
#include "sealed.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 1000,       /* between two looks at the follower's state */
    SAY_AGAIN_MS = 60000, /* a reason that changes is logged so often */
    RELEASE_MS = 2000,
    LINE_BYTES = 300,
    STATUS_BYTES = 400,
};

struct replica {
    int lock_fd;
    char *process, *db_path, *database;
    char host[HOST_NAME_SIZE];
    uint8_t key[SEAL_KEY_BYTES], me[HOLDER_BYTES];
    int64_t takeover_after_ms;
    bool accept_weak;
    struct engine *engine; /* the replicator's, when there is one */
    struct follower *follower;
    struct replicator *replicator;
    struct reach *reach;

    /* While it owns the store; mono_ms(). */
    int64_t owned_since_ms;
    int64_t heir_since_ms; /* a standby reaches some processes; 0: none does */
    int64_t look_due_ms;

    /* While it follows. */
    pthread_t thread;
    int ended_fd; /* an eventfd: follower_run() has returned */
    enum follower_result result;
    char why[ENGINE_WHY_BYTES];
    bool said_ready;
    int64_t said_ms; /* mono: when a reason was logged last; 0: never */
};

/* ---- does the file agree with the configuration? ---- */

bool replica_wanted(const struct settings *settings, const char *name,
                    const char *db_path)
{
    struct stored_position stored;
    struct stat st;
    bool has_position = position_file_read(db_path, &stored),
         has_file = stat(db_path, &st) == 0 && st.st_size > 0;

    if (!settings->replicate.database && has_position)
        die(EXIT_CONFIG,
            "%s is replicated, and the configuration has no `replicate`: set "
            "it again, or end the replication on the host that is to keep the "
            "file (`grapnel replicate off %s`), and move this file away on the "
            "others",
            db_path, name);
    /* A file without a position was never replicated, or was put here: a backup, a copy. */
    if (settings->replicate.database && !has_position && has_file)
        die(EXIT_CONFIG,
            "%s is not replicated yet: run `grapnel replicate begin %s` to "
            "begin with this file. If another host has the store of %s, move "
            "this file away; then this host follows it",
            db_path, name, name);
    return settings->replicate.database != NULL;
}

/* ---- the lock file: has the start that the position file names ended? ---- */

/* "holder=… boot=… inode=…"; "": the system does not say which boot this is. A copy of the folder on another host has another boot, and one on this host another
 * inode. */
static void put_line(const struct replica *r, int lock_fd,
                     const uint8_t holder[HOLDER_BYTES], char out[LINE_BYTES])
{
    char boot[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof boot - 1);
    struct stat st;
    struct buf hex;

    (void)r;
    out[0] = 0;
    if (fd >= 0)
        close(fd);
    if (n <= 0 || fstat(lock_fd, &st) != 0)
        return;
    boot[strcspn(boot, "\n")] = 0;
    buf_init(&hex, 2 * HOLDER_BYTES);
    hex_put(holder, HOLDER_BYTES, &hex);
    snprintf(out, LINE_BYTES, "holder=%.*s boot=%s inode=%llu:%llu\n",
             (int)hex.len, hex.data, boot, (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    buf_fini(&hex);
}

/* The lock file begins with the process id, in a line of its own. */
static bool former_has_ended(const struct replica *r, int lock_fd,
                             const char *lock_text)
{
    char line[LINE_BYTES];
    struct stored_position stored;
    const char *at = strchr(lock_text, '\n');

    if (!at || !position_file_read(r->db_path, &stored))
        return false;
    put_line(r, lock_fd, stored.holder, line);
    return *line && strcmp(at + 1, line) == 0;
}

/* ---- the engine ---- */

static struct engine_settings engine_settings(const struct replica *r)
{
    return (struct engine_settings){.database = r->database,
                                    .process = r->process,
                                    .host = r->host,
                                    .hold_ms = hold_of_ms(r->takeover_after_ms),
                                    .accept_weak = r->accept_weak};
}

static void found(void *self, enum engine_finding_kind kind, const char *what,
                  const char *fix)
{
    struct replica *r = self;
    bool weak = kind == ENGINE_WEAK;

    if (weak && !r->accept_weak)
        die(EXIT_UNAVAILABLE,
            "replicate.database can lose what it has acknowledged: %s. To "
            "correct it: %s. Or set accept_weak_durability, and lose it then",
            what, *fix ? fix : "see its documentation");
    log_warn(NULL,
             weak ? "the replication database can lose what it has "
                    "acknowledged, and accept_weak_durability permits it"
                  : "the replication database",
             LS("finding", what), LS("fix", fix));
}

/* An engine that is silent now is asked again by each transaction. */
static void check_engine(struct replica *r)
{
    struct engine_settings s = engine_settings(r);
    char why[ENGINE_WHY_BYTES] = "";

    if (engine_check(&s, found, r, why) != GR_OK)
        log_warn(NULL,
                 "the replication database cannot be reached; the process "
                 "waits for it",
                 LS("error", why));
}

/* ---- the standby ---- */

static void *follow(void *arg)
{
    struct replica *r = arg;
    uint64_t one = 1;

    r->result = follower_run(r->follower, r->why);
    if (write(r->ended_fd, &one, sizeof one) != sizeof one)
        die(EXIT_UNAVAILABLE, "eventfd: %s", strerror(errno));
    return NULL;
}

static void begin_following(struct replica *r, const struct replica_start *s,
                            bool ended)
{
    const struct follower_settings f = {
        .db_path = r->db_path,
        .process = r->process,
        .ops = &engine_postgres,
        .engine = r->engine,
        .key = r->key,
        .me = r->me,
        .former_has_ended = ended,
        .takeover_after_ms = r->takeover_after_ms,
        .schema = s->schema};

    r->follower = follower_open(&f);
    r->ended_fd = eventfd(0, EFD_CLOEXEC);
    if (r->ended_fd < 0)
        die(EXIT_UNAVAILABLE, "eventfd: %s", strerror(errno));
    if (pthread_create(&r->thread, NULL, follow, r) != 0)
        die(EXIT_UNAVAILABLE, "can't start the replication thread");
}

static void end_following(struct replica *r)
{
    pthread_join(r->thread, NULL);
    close(r->ended_fd);
}

/* Logs when it is ready, and why it is not, but not each number of a turn. */
static void say(struct replica *r, const struct follower_state *f,
                int64_t now_mono_ms)
{
    if (f->ready && !r->said_ready)
        log_info(NULL, "standby: ready to take over", LI("turn", f->at.n));
    if (!f->ready && *f->why &&
        (r->said_ready || !r->said_ms ||
         now_mono_ms - r->said_ms >= SAY_AGAIN_MS)) {
        log_info(NULL, "standby: not ready to take over", LS("reason", f->why),
                 LI("turn", f->at.n));
        r->said_ms = now_mono_ms;
    }
    r->said_ready = f->ready;
}

static void report(struct replica *r)
{
    int64_t now = mono_ms();
    struct reach_state reach;
    struct follower_state f;
    char status[STATUS_BYTES];

    reach_state(r->reach, &reach);
    follower_reaches(r->follower, reach.reached);
    follower_state(r->follower, &f);
    say(r, &f, now);
    manager_turn(now);
    if (!manager_status_is_due(now))
        return;
    if (f.ready)
        snprintf(status, sizeof status, "standby, ready; turn %lld",
                 (long long)f.at.n);
    else
        snprintf(status, sizeof status, "standby, not ready: %.200s",
                 *f.why ? f.why : "starting");
    manager_status(status, now);
}

/* true: SIGTERM or SIGINT. */
static bool take_signals(struct replica *r, const struct replica_start *s)
{
    struct signalfd_siginfo info;
    bool stop = false;

    while (read(s->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP)
            reach_reload(r->reach, s->reload(s->self));
        else
            stop = true;
    }
    return stop;
}

_Noreturn static void stop(struct replica *r)
{
    const struct ownership *o;
    char why[ENGINE_WHY_BYTES];

    log_info(NULL, "stopping");
    manager_stopping(0);
    follower_stop(r->follower);
    end_following(r);
    o = follower_ownership(r->follower);
    /* It has just taken the store over. If this does not succeed, a standby waits for the silence. */
    if (o->role == ROLE_ACTIVE)
        engine_postgres.release(r->engine, &o->mine, &o->at, o->owner.beat, "",
                                why);
    follower_close(r->follower);
    reach_close(r->reach);
    engine_postgres.close(r->engine);
    log_info(NULL, "stopped");
    manager_close();
    exit(0);
}

static void wait_for_ownership(struct replica *r, const struct replica_start *s)
{
    struct pollfd fds[2] = {{.fd = s->signal_fd, .events = POLLIN},
                            {.fd = r->ended_fd, .events = POLLIN}};

    manager_ready(); /* a standby is what it is to be */
    do {
        report(r);
        if (poll(fds, 2, LOOK_MS) > 0 && fds[0].revents && take_signals(r, s))
            stop(r);
    } while (!fds[1].revents);
    end_following(r);
    if (r->result == FOLLOWER_CONTRADICTION)
        die(EXIT_STORAGE,
            "%s: %s. The engine was restored from a backup, or lost commits "
            "that it had acknowledged: an operator decides "
            "(docs/CLUSTER.md, \"The log went back\")",
            r->db_path, r->why);
}

/* Tests shorten it with GRAPNEL_TEST_STUCK_MS. */
static int64_t stuck_ms(void)
{
    const char *text = getenv("GRAPNEL_TEST_STUCK_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : REPLICATOR_STUCK_MS;
}

struct replica *replica_become_owner(const struct replica_start *s)
{
    struct replica *r = gr_alloc(sizeof *r);
    struct replicator_settings with = {.ops = &engine_postgres,
                                       .process = s->name,
                                       .db_path = s->db_path,
                                       .key = r->key,
                                       .schema = s->schema,
                                       .stuck_ms = stuck_ms()};
    struct engine_settings e;
    bool ended;

    r->lock_fd = s->lock_fd;
    r->process = gr_strdup(s->name);
    r->db_path = gr_strdup(s->db_path);
    r->database = gr_strdup(s->settings->replicate.database);
    settings_host(s->settings, r->host);
    r->takeover_after_ms = s->settings->replicate.takeover_after_ms;
    r->accept_weak = s->settings->replicate.accept_weak;
    if (!sealed_key_read(s->settings->replicate.key, r->key))
        die(EXIT_CONFIG, "replicate.key is not base64 of 32 bytes");
    if (getrandom(r->me, sizeof r->me, 0) != sizeof r->me)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    ended = former_has_ended(r, s->lock_fd, s->lock_text);
    check_engine(r);
    e = engine_settings(r);
    r->engine = engine_postgres.open(&e);
    log_info(NULL, "standby", LS("host", r->host), LS("file", r->db_path));
    r->reach = reach_open(r->process, s->settings);
    begin_following(r, s, ended);
    wait_for_ownership(r, s);
    with.engine = r->engine;
    with.snapshots = engine_postgres.open(&e);
    with.ownership = follower_ownership(r->follower);
    r->replicator = replicator_open(&with);
    follower_close(r->follower);
    r->follower = NULL;
    r->engine = NULL;
    r->owned_since_ms = mono_ms();
    return r;
}

/* ---- the owner ---- */

void replica_started(const struct replica *r)
{
    char line[LINE_BYTES];

    if (!r)
        return;
    put_line(r, r->lock_fd, r->me, line);
    if (!*line || lseek(r->lock_fd, 0, SEEK_END) < 0 ||
        write(r->lock_fd, line, strlen(line)) != (ssize_t)strlen(line))
        log_warn(NULL,
                 "the lock could not be written, so after a crash this host "
                 "waits as any standby does",
                 LS("error", strerror(errno)));
}

struct replicator *replica_replicator(struct replica *r)
{
    return r->replicator;
}

const char *replica_host(const struct replica *r)
{
    return r->host;
}

bool replica_can_hand_over(struct replica *r, const char *host, char why[200])
{
    struct engine_node node;

    if (strcmp(host, r->host) == 0)
        snprintf(why, 200, "%s has it already", host);
    else if (!replicator_node(r->replicator, host, &node))
        snprintf(why, 200,
                 "no standby of it runs on %s: `grapnel replicate status` "
                 "lists them",
                 host);
    else if (node.seen_ms > r->takeover_after_ms)
        snprintf(why, 200, "its standby on %s has been silent for %lld s", host,
                 (long long)(node.seen_ms / SECOND_MS));
    else if (!node.ready)
        snprintf(why, 200, "its standby on %s is not ready: %.120s", host,
                 node.why);
    else
        return true;
    return false;
}

void replica_release(struct replica *r, const char *heir)
{
    if (!r)
        return;
    if (replicator_release(r->replicator, heir, RELEASE_MS))
        log_info(NULL, "the store was given away",
                 LS("to", heir ? heir : "any standby"));
    else
        log_warn(NULL,
                 "it is not known whether the store was given away; a standby "
                 "takes over after the silence of takeover_after");
}

void replica_close(struct replica *r)
{
    if (!r)
        return;
    replicator_close(r->replicator);
    reach_close(r->reach);
    explicit_bzero(r->key, sizeof r->key);
    free(r->process);
    free(r->db_path);
    free(r->database);
    free(r);
}

void replica_reload(struct replica *r, const struct settings *settings)
{
    reach_reload(r->reach, settings);
}

int replica_peers(struct replica *r)
{
    struct reach_state s;

    reach_state(r->reach, &s);
    return s.reached;
}

int replica_look_ms(const struct replica *r)
{
    int64_t left_ms = r->look_due_ms - mono_ms();

    return left_ms > 0 ? (int)left_ms : 0;
}

bool replica_is_alone(struct replica *r, char heir[ENGINE_HOST_BYTES])
{
    int64_t now = mono_ms();
    struct engine_node node;
    struct reach_state s;
    struct alone_facts f;

    if (now < r->look_due_ms)
        return false;
    r->look_due_ms = now + reach_every_ms(r->takeover_after_ms);
    if (!replicator_heir(r->replicator, &node))
        r->heir_since_ms = 0;
    else if (!r->heir_since_ms)
        r->heir_since_ms = now;
    reach_state(r->reach, &s);
    f = (struct alone_facts){
        .takeover_after_ms = r->takeover_after_ms,
        .tenure_ms = alone_tenure_ms(),
        .owned_ms = now - r->owned_since_ms,
        .none_ms = s.none_ms,
        .heir_ms = r->heir_since_ms ? now - r->heir_since_ms : 0};
    if (!alone_should_hand_over(&f))
        return false;
    snprintf(heir, ENGINE_HOST_BYTES, "%s", node.host);
    log_warn(NULL,
             "this process reaches no other process of the pipeline, and a "
             "standby does; it hands the store over",
             LS("to", heir), LI("alone_ms", f.none_ms),
             LI("peers_there", node.peers));
    return true;
}

bool replica_waits(struct replica *r)
{
    struct replicator_state s;

    replicator_state(r->replicator, &s);
    return s.turn_open || !s.may_send_ms;
}

void replica_waits_why(struct replica *r, int64_t since_ms, char why[200])
{
    struct replicator_state s;

    replicator_state(r->replicator, &s);
    snprintf(why, 200,
             "it has waited for the replication database for %lld s%s%.120s",
             (long long)(mono_ms() - since_ms) / SECOND_MS,
             *s.error ? ": " : "", s.error);
}

int64_t replica_turn(struct replica *r)
{
    struct replicator_state s;

    replicator_state(r->replicator, &s);
    return s.n;
}

bool replica_forget(struct replica *r, int64_t n, char why[200])
{
    struct snapshot_state snapshot;

    if (replicator_forget(r->replicator, n))
        return true;
    replicator_snapshots(r->replicator, &snapshot);
    snprintf(why, 200, "%.199s", snapshot.error);
    return false;
}

json_t *replica_json(struct replica *r)
{
    struct replicator_state s;
    struct snapshot_state snapshot;
    struct reach_state reach;

    replicator_state(r->replicator, &s);
    replicator_snapshots(r->replicator, &snapshot);
    reach_state(r->reach, &reach);
    return json_pack(
        "{s:s,s:s,s:I,s:I,s:b,s:I,s:I,s:i,s:I,s:o,s:s,s:{s:I,s:o,s:I,s:I,s:s}}",
        "host", r->host, "role", "active", "epoch", (json_int_t)s.epoch, "turn",
        (json_int_t)s.n, "turn_open", (int)s.turn_open, "may_send_ms",
        (json_int_t)s.may_send_ms, "append_us", (json_int_t)s.append_us,
        "peers", reach.reached, "alone_ms", (json_int_t)reach.none_ms,
        "failing_since", json_time(s.failing_since_ms), "error", s.error,
        "snapshot", "turn", (json_int_t)snapshot.n, "made_at",
        json_time(snapshot.made_ms), "parts", (json_int_t)snapshot.parts,
        "all_parts", (json_int_t)snapshot.all_parts, "error", snapshot.error);
}
