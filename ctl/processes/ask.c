/* ask: finds the processes in run_dir and asks them over their control sockets. */
#include "ask.h"
#include "clock.h"
#include "commands.h"
#include "json_text.h"
#include <czmq.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    LOOK_MS = 500, /* whether a process that works on a request still runs */
    STILL_MS = 10 * 60 * 1000, /* then it hangs */
};

void processes_find(struct ctl *c, struct processes *p)
{
    need_run_dir(c);
    processes_in(c->run_dir, p);
}

bool is_process_name(const char *name)
{
    if (!name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] &&
        process_rank(name) != process_rank(""))
        return true;
    complain(EXIT_USAGE,
             "%s is not the name of a process, such as ingress, sequencer, "
             "deliverer-1, dlqd, console or ingress-2",
             name);
    return false;
}

/* Connects without ZeroMQ, which would retry until the timeout. Never blocks, also when the
 * process hangs and its queue of connections is full (EAGAIN). */
bool process_listens(struct ctl *c, const char *process, char why[200])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), n;
    char *host = NULL;
    bool yes;

    n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.control", c->run_dir,
                 process);
    if (fd < 0 || n < 0 || (size_t)n >= sizeof at.sun_path) {
        snprintf(why, 200, "the path of run_dir is too long for a socket");
        if (fd >= 0)
            close(fd);
        return false;
    }
    yes = connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ||
          errno == EAGAIN;
    if (!yes && errno == EACCES)
        snprintf(why, 200, "it belongs to another user");
    else if (!yes && (host = process_host(c->run_dir, process)))
        snprintf(why, 200,
                 "on another host, %.100s; the console, which connects to it, "
                 "is not running",
                 host);
    else if (!yes)
        snprintf(why, 200, "not running");
    free(host);
    close(fd);
    return yes;
}

void add_host(struct ctl *c, json_t *row)
{
    char *host = process_host(
        c->run_dir, json_string_value(json_object_get(row, "process")));

    if (host)
        json_object_set_new(row, "host", json_text_of(host));
    free(host);
}

/* Who asks, for the audit row of an act; NULL: the command changes nothing, and processes of
 * earlier versions do not know `by`. The caller's. */
static json_t *by_of(const char *what)
{
    static const struct command_spec *const *const lists[] = {
        every_commands,     ingress_commands,   outbox_commands,
        reconcile_commands, sequencer_commands, deliverer_commands,
        dlqd_commands,      console_commands};

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (size_t k = 0; lists[i][k]; k++)
            if (strcmp(lists[i][k]->name, what) == 0 &&
                lists[i][k]->flags & COMMAND_ACTS)
                return json_pack("{s:o}", "actor",
                                 json_sprintf("user %s", user_name()));
    return NULL;
}

json_t *ask(struct ctl *c, const char *process, const char *what, json_t *args,
            int timeout_ms, bool *unreachable, char why[200])
{
    json_t *reply = NULL, *by = by_of(what);

    need_run_dir(c);
    *unreachable = !process_listens(c, process, why);
    if (!*unreachable)
        reply = control_ask(c->run_dir, process, what, args, by, timeout_ms,
                            unreachable, why);
    json_decref(by);
    if (*unreachable && !*why)
        snprintf(why, 200, "it does not respond");
    json_decref(args);
    return reply;
}

/* What tells a file from the one that replaces it, and from itself after a change. */
struct mark {
    ino_t inode;
    struct timespec changed;
};

static struct mark mark_of(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return (struct mark){0};
    return (struct mark){st.st_ino, st.st_ctim};
}

static bool is_same(struct mark a, struct mark b)
{
    return a.inode == b.inode && a.changed.tv_sec == b.changed.tv_sec &&
           a.changed.tv_nsec == b.changed.tv_nsec;
}

static bool has_reply(zsock_t *req, int wait_ms)
{
    zmq_pollitem_t item = {.socket = zsock_resolve(req), .events = ZMQ_POLLIN};

    return zmq_poll(&item, 1, wait_ms) > 0;
}

/* Tests shorten it with GRAPNEL_TEST_STILL_MS. */
static int64_t still_ms(void)
{
    const char *text = getenv("GRAPNEL_TEST_STILL_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : STILL_MS;
}

/* false: it has ended, or does nothing (`why`). */
static bool wait_for_reply(struct ctl *c, const char *process, zsock_t *req,
                           const char *grows, char why[200])
{
    char *path = gr_printf("%s/%s.control", c->run_dir, process), other[200];
    struct mark bound = mark_of(path), grown = {0}, now;
    int64_t grown_ms = mono_ms();
    bool waits = true;

    while (waits && !has_reply(req, LOOK_MS)) {
        now = mark_of(grows);
        if (!is_same(now, grown))
            grown_ms = mono_ms();
        grown = now;
        if (!process_listens(c, process, other) ||
            !is_same(mark_of(path), bound)) {
            snprintf(why, 200, "it ended before it replied");
            waits = has_reply(req, 0); /* its last words */
        } else if (mono_ms() - grown_ms > still_ms()) {
            snprintf(why, 200, "it does not respond");
            waits = false;
        }
    }
    free(path);
    return waits;
}

json_t *ask_long(struct ctl *c, const char *process, const char *what,
                 json_t *args, const char *grows, bool *unreachable,
                 char why[200])
{
    json_t *by = by_of(what), *reply = NULL;
    zsock_t *req = NULL;

    *unreachable = !process_listens(c, process, why);
    if (!*unreachable)
        req = control_send(c->run_dir, process, what, args, by, ASK_MS);
    if (req && !wait_for_reply(c, process, req, grows, why)) {
        *unreachable = true;
        zsock_destroy(&req);
    } else if (!*unreachable) {
        reply = control_take(req, unreachable, why);
    }
    json_decref(by);
    json_decref(args);
    return reply;
}

json_t *ask_needed(struct ctl *c, const char *process, const char *what,
                   json_t *args, int timeout_ms, int *code)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(c, process, what, args, timeout_ms, &unreachable, why);

    if (!reply)
        option_error(c->parsed.command, why);
    if (unreachable)
        *code = complain_away(c, process, why);
    else if (!reply && process_is(process, PROCESSES_WITH_ARCHIVE))
        *code = complain(EXIT_REFUSED, "%s: %s", process, why);
    else if (!reply)
        *code = complain(EXIT_REFUSED, "%s", why);
    return reply;
}

bool question_failed(const struct question *q)
{
    return !q->reply && !q->unreachable && strcmp(q->code, "not_found") != 0;
}

void ask_all(struct ctl *c, struct question *all, size_t count, int timeout_ms)
{
    zsock_t **sockets = gr_alloc((count + 1) * sizeof *sockets);
    int64_t end_ms = mono_ms() + timeout_ms;

    need_run_dir(c);
    for (size_t i = 0; i < count; i++) {
        struct question *q = &all[i];
        json_t *by = by_of(q->what);

        q->reply = NULL;
        *q->code = 0;
        q->unreachable = !process_listens(c, q->process, q->why);
        if (!q->unreachable)
            sockets[i] = control_send(c->run_dir, q->process, q->what, q->args,
                                      by, timeout_ms);
        json_decref(by);
        json_decref(q->args);
        q->args = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        int left_ms = (int)(end_ms - mono_ms());

        if (all[i].unreachable)
            continue;
        left_ms = left_ms > 0 ? left_ms : 0;
        if (sockets[i])
            zsock_set_rcvtimeo(sockets[i], left_ms);
        all[i].reply = control_take_coded(sockets[i], &all[i].unreachable,
                                          all[i].code, all[i].why);
    }
    free(sockets);
}

bool is_silent(struct ctl *c, const char *process)
{
    char *host = process_host(c->run_dir, process), why[200];
    bool silent = !host && process_listens(c, process, why);

    free(host);
    return silent;
}

bool is_forbidden(const struct ctl *c)
{
    return access(c->run_dir, X_OK) != 0 && errno == EACCES;
}

static int complain_silent(const char *process, const char *why)
{
    return complain(EXIT_UNAVAILABLE,
                    "%s runs, but %s: look at its log; if it stays so, restart "
                    "it",
                    process, why);
}

int complain_away(struct ctl *c, const char *process, const char *why)
{
    if (is_silent(c, process))
        return complain_silent(process, why);
    if (is_forbidden(c))
        return complain(EXIT_UNAVAILABLE,
                        "cannot be reached: %s%s%s%s. Run this command as "
                        "root, or as the owner of run_dir (%s)",
                        process, *why ? " (" : "", why, *why ? ")" : "",
                        c->run_dir);
    return complain(EXIT_UNAVAILABLE,
                    "cannot be reached: %s%s%s%s. Start the processes; if they "
                    "run with another configuration or run_dir (this one is "
                    "%s), use -c FILE or --run-dir DIR",
                    process, *why ? " (" : "", why, *why ? ")" : "",
                    c->run_dir);
}

int complain_all_away(struct ctl *c, const json_t *rows, const char *key)
{
    bool others = false, silent = false;
    struct buf names;
    json_t *row;
    int code = 0;
    size_t i;

    buf_init(&names, 64 * 1024);
    json_array_foreach(rows, i, row)
    {
        const char *process = text_of(row, "process"),
                   *why = text_of(row, "error");

        if (json_is_true(json_object_get(row, key))) {
            others = true;
        } else if (json_is_true(json_object_get(row, "runs")) &&
                   !json_is_true(json_object_get(row, "silent"))) {
            others = true;
            code = complain(EXIT_UNAVAILABLE,
                            "%s runs, and does not report its state: %s",
                            process, why);
        } else if (is_silent(c, process)) {
            silent = true;
            code = complain_silent(process, why);
        } else {
            buf_printf(&names, "%s%s (%s)", names.len ? ", " : "", process,
                       why);
        }
    }
    if (names.len && (others || silent)) /* so it is the right run_dir */
        code = complain(EXIT_UNAVAILABLE,
                        "cannot be reached: %s. The other processes %s. Start "
                        "it; its log says why it ended",
                        names.data, silent ? "run" : "respond");
    else if (names.len)
        code = complain_away(c, names.data, "");
    buf_fini(&names);
    return code;
}
