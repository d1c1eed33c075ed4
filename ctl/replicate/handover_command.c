/* handover_command: `grapnel handover`: asks the active process to give its store to another host, and waits until that host has it. */
#include "ask.h"
#include "clock.h"
#include "replicated.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_US = 50 * 1000 };

/* Until another start has it. EXIT_UNAVAILABLE: the error was printed; EXIT_REFUSED: it takes longer than `wait_ms`. */
static int wait_for_owner(struct engine *e, const char *process, int64_t epoch,
                          int64_t wait_ms, char host[])
{
    int64_t until_ms = mono_ms() + wait_ms;

    do {
        size_t count;
        const struct engine_store *all = replicated_overview(e, &count),
                                  *s = replicated_find(all, count, process);

        if (!all)
            return EXIT_UNAVAILABLE;
        if (s && s->owner.epoch > epoch) {
            snprintf(host, ENGINE_HOST_BYTES, "%s", s->owner.host);
            return 0;
        }
        usleep(LOOK_US);
    } while (mono_ms() < until_ms);
    return EXIT_REFUSED;
}

/* The active has agreed. */
static int wait_for_heir(const struct replicated *r, struct engine *e,
                         const char *process, int64_t epoch, char host[])
{
    int code = wait_for_owner(e, process, epoch,
                              2 * r->c->settings->replicate.takeover_after_ms,
                              host);

    return code != EXIT_REFUSED
               ? code
               : complain(EXIT_REFUSED,
                          "%s was given away, and no host has taken it yet: "
                          "look at `grapnel replicate status` and at the logs",
                          process);
}

/* The active has not replied. It may hand over all the same: the request has reached it, or will. */
static int look_without_reply(const struct replicated *r, struct engine *e,
                              const char *process, int64_t epoch,
                              const char *why, char host[])
{
    int code = wait_for_owner(e, process, epoch, r->hold_ms, host);

    return code != EXIT_REFUSED
               ? code
               : complain(EXIT_UNAVAILABLE,
                          "%s: %s. No other host has it yet. If the request "
                          "has reached it, it may still hand over: `grapnel "
                          "replicate status` says who has it",
                          process, why);
}

/* What the engine says of it before. *epoch: -1: an error was printed. */
static int read_before(struct engine *e, const char *process, const char *host,
                       int64_t *epoch)
{
    size_t count;
    const struct engine_store *all = replicated_overview(e, &count),
                              *s = replicated_find(all, count, process);
    const struct engine_node *node;

    if (!all)
        return EXIT_UNAVAILABLE;
    if (!s)
        return complain(EXIT_REFUSED, "%s is not replicated", process);
    if (!replicated_node(s, host))
        return complain(EXIT_REFUSED,
                        "%s is not a host that follows %s: `grapnel replicate "
                        "status` lists them",
                        host, process);
    if (strcmp(s->owner.host, host) == 0)
        return complain(EXIT_REFUSED, "%s has %s already", host, process);
    node = replicated_node(s, host);
    if (!node->ready)
        return complain(EXIT_REFUSED,
                        "the standby of %s on %s is not ready: %s", process,
                        host, node->why);
    *epoch = s->owner.epoch;
    return 0;
}

/* The active reads about other hosts twice in each hold, so it may know a standby that is ready a moment later. */
static json_t *ask_active(const struct replicated *r, const char *process,
                          const char *host, bool *unreachable, char why[200])
{
    int64_t until_ms = mono_ms() + r->hold_ms;
    json_t *reply;

    do {
        reply = ask(r->c, process, "handover", json_pack("{s:s}", "host", host),
                    ASK_MS, unreachable, why);
        if (!reply)
            usleep(LOOK_US);
    } while (!reply && !*unreachable && mono_ms() < until_ms);
    return reply;
}

int run_handover(struct ctl *c)
{
    const char *process = c->parsed.args[0], *to = c->parsed.args[1];
    char host[ENGINE_HOST_BYTES] = "", why[200];
    struct replicated r;
    struct engine *e;
    int64_t epoch = 0, began_ms;
    bool unreachable;
    json_t *reply;
    int code;

    if (!replicated_name(process) || !is_utf8("HOST", to))
        return EXIT_USAGE;
    need_run_dir(c);
    replicated_open(&r, c);
    e = replicated_engine(&r, "");
    code = read_before(e, process, to, &epoch);
    if (code) {
        engine_postgres.close(e);
        return code;
    }
    began_ms = mono_ms();
    reply = ask_active(&r, process, to, &unreachable, why);
    if (!reply && !unreachable)
        code = complain(EXIT_REFUSED, "%s: %s", process, why);
    else if (reply)
        code = wait_for_heir(&r, e, process, epoch, host);
    else
        code = look_without_reply(&r, e, process, epoch, why, host);
    if (code)
        ;
    else if (strcmp(host, to) != 0)
        code = complain(EXIT_REFUSED, "%s has it now, not %s", host, to);
    else if (c->json)
        print_json(json_pack("{s:s,s:s,s:I}", "process", process, "host", host,
                             "took_ms", (json_int_t)(mono_ms() - began_ms)));
    else
        printf("%s: %s has it now, after %lld ms\n", process, host,
               (long long)(mono_ms() - began_ms));
    json_decref(reply);
    engine_postgres.close(e);
    return code;
}
