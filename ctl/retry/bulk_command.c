/* bulk_command: `grapnel dlq retry`, `resolve` and `discard` with --all. dlqd selects the dead
 * letters and changes each page in one transaction; this limits the rate and shows progress. */
#include "ask.h"
#include "clock.h"
#include "commands.h"
#include "conf.h"
#include "names.h"
#include "progress.h"
#include "table.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RATE_DEFAULT = 100, /* dead letters a second */
    RATE_MAX = 100000,
    PAGES_PER_S = 5,
    PAGE_MAX = 500,
};

static const char dlqd[] = "dlqd";
static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    (void)signo;
    interrupted = 1;
}

static const char *const filters[] = {"--endpoint", "--source", "--workspace",
                                      "--type",     "--reason", NULL};

/* An action on all dead letters that match the filters. */
struct deed {
    const char *ask; /* the request to dlqd */
    const char
        *done; /* "requeued": the key of the reply, and the word to print */
};

/* One run of an action. */
struct bulk {
    struct ctl *c;
    const struct deed *deed;
    json_t *args; /* of the next page */
    int64_t rate, limit, total, done;
    json_t *ids, *refused; /* for --json; else NULL */
    int64_t refused_count;
    char why[200]; /* the reason of the first refused one */
    struct progress progress;
};

/* Leaves out dead letters that are created while the command runs, so that one that fails again
 * is not retried for ever. */
static bool put_args(struct bulk *b)
{
    const char *text = parsed_value(&b->c->parsed, "--rate"), *why = "";

    b->rate = RATE_DEFAULT;
    b->limit = INT64_MAX;
    if (!put_filters(b->c, b->args) || !put_limit(b->c, b->args))
        return false;
    if (json_object_get(b->args, "limit"))
        b->limit = integer_of(b->args, "limit");
    if (!json_object_get(b->args, "until_ms"))
        json_object_set_new(b->args, "until_ms", json_integer(now_ms()));
    json_object_set_new(b->args, "who", json_string(user_name()));
    if (!text || (conf_parse_int(text, &b->rate, &why) == GR_OK &&
                  b->rate >= 1 && b->rate <= RATE_MAX))
        return true;
    complain(EXIT_USAGE,
             "--rate: \"%s\" is not a whole number from 1 to %d (dead letters "
             "per second)",
             text, RATE_MAX);
    return false;
}

/* Prepares the next page. false: this was the last one. */
static bool go_on(struct bulk *b, const json_t *reply)
{
    json_t *next = json_object_get(reply, "next");

    if (json_is_string(next))
        json_object_set(b->args, "after", next);
    return json_is_string(next);
}

static bool count_all(struct bulk *b, int *code)
{
    bool more = true;

    while (more) {
        json_t *args = json_object(), *reply, *v;
        const char *key;

        json_object_foreach(b->args, key,
                            v) if (command_arg(&command_dlq_count, key))
            json_object_set(args, key, v);
        reply = ask_needed(b->c, dlqd, "dlq_count", args, ASK_MS, code);
        if (!reply)
            return false;
        b->total += integer_of(reply, "count");
        more = go_on(b, reply);
        json_decref(reply);
    }
    if (b->total > b->limit)
        b->total = b->limit;
    json_object_del(b->args, "after");
    return true;
}

static void show(struct bulk *b)
{
    progress_show(&b->progress,
                  b->total ? (double)b->done / (double)b->total : 1,
                  "%lld of %lld %s", (long long)b->done, (long long)b->total,
                  b->deed->done);
}

static bool do_all(struct bulk *b, int *code)
{
    int64_t per_page = (b->rate + PAGES_PER_S - 1) / PAGES_PER_S;
    bool more = true;

    if (per_page > PAGE_MAX)
        per_page = PAGE_MAX;
    for (show(b); more && b->done < b->limit && !interrupted; show(b)) {
        int64_t missing = b->limit - b->done, before = b->done;
        json_t *reply, *ids, *refused;

        json_object_set_new(
            b->args, "limit",
            json_integer(missing < per_page ? missing : per_page));
        reply = ask_needed(b->c, dlqd, b->deed->ask, json_incref(b->args),
                           ASK_MS, code);
        if (!reply)
            return false;
        ids = json_object_get(reply, b->deed->done);
        b->done += (int64_t)json_array_size(ids);
        if (b->ids)
            json_array_extend(b->ids, ids);
        refused = json_object_get(reply, "refused");
        if (!b->refused_count && json_array_size(refused))
            snprintf(b->why, sizeof b->why, "%s",
                     text_of(json_array_get(refused, 0), "why"));
        b->refused_count += (int64_t)json_array_size(refused);
        if (b->refused)
            json_array_extend(b->refused, refused);
        more = go_on(b, reply);
        json_decref(reply);
        if (more && !interrupted)
            usleep((useconds_t)((b->done - before) * 1000000 / b->rate));
    }
    if (interrupted)
        *code = EXIT_REFUSED;
    return !interrupted;
}

int run_dlq_all(struct ctl *c, const char *ask_what, const char *done_word)
{
    const struct deed deed = {ask_what, done_word};
    struct bulk b = {.c = c,
                     .deed = &deed,
                     .args = json_object(),
                     .ids = c->json ? json_array() : NULL,
                     .refused = c->json ? json_array() : NULL};
    int code = EXIT_USAGE;
    bool done;

    progress_begin(&b.progress, !c->json && isatty(STDERR_FILENO));
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    done = put_args(&b) && count_all(&b, &code) && do_all(&b, &code);
    progress_end(&b.progress);
    if (done && c->json)
        print_json(
            json_pack("{s:O, s:O}", deed.done, b.ids, "refused", b.refused));
    else if (done)
        printf("%lld %s\n", (long long)b.done, deed.done);
    if (done) {
        if (b.refused_count)
            complain(EXIT_REFUSED, "%lld dead letter%s refused%s: %s",
                     (long long)b.refused_count,
                     b.refused_count == 1 ? " was" : "s were",
                     b.refused_count == 1 ? "" : ", the first one because",
                     b.why);
        fflush(stdout);
        code = b.total ? 0 : unknown_filter(c, filters);
        code = b.refused_count ? EXIT_REFUSED : code;
    } else if (b.done || interrupted)
        complain(code,
                 "%s%lld dead letter%s %s before that; the same command "
                 "continues with the rest",
                 interrupted ? "interrupted; " : "", (long long)b.done,
                 b.done == 1 ? " was" : "s were", deed.done);
    json_decref(b.args);
    json_decref(b.ids);
    json_decref(b.refused);
    return code;
}
