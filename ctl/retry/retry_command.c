/* retry_command: `grapnel retry` and `abandon`: change an open delivery. */
#include "ask.h"
#include "clock.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FOLLOW_MS = 2000, /* the longest wait for the end of the attempt */
    LOOK_MS = 50,
};

static const char sequencer[] = "sequencer";

/* ---- the result of a retry ---- */

static bool is_at(const json_t *row, const char *endpoint)
{
    return endpoint && strcmp(text_of(row, "endpoint"), endpoint) == 0;
}

/* Adds "attempt" to the delivery if the attempt ends in time, else the "state" and "circuit" of
 * its deliverer. */
static void follow(struct ctl *c, const char *id, json_t *delivery)
{
    const char *endpoint = json_string_value(
        json_object_get(delivery, "endpoint"));
    const char *owner = json_string_value(
        json_object_get(delivery, "deliverer"));
    int64_t before = integer_of(delivery, "attempts");
    int64_t end_ms = mono_ms() + FOLLOW_MS;
    bool unreachable, ended = false;
    char why[200];

    while (owner && !ended && mono_ms() < end_ms) {
        json_t *reply = ask(c, owner, "trace", json_pack("{s:s}", "id", id),
                            FOLLOW_MS, &unreachable, why);
        json_t *one, *attempt = NULL, *waiting = NULL;
        size_t i;

        if (!reply) {
            json_object_set_new(delivery, "state", json_string("unreachable"));
            break;
        }
        json_array_foreach(json_object_get(reply, "attempts"), i,
                           one) if (is_at(one, endpoint) &&
                                    integer_of(one, "n") > before)
            attempt = one;
        json_array_foreach(json_object_get(reply, "waiting"), i,
                           one) if (is_at(one, endpoint)) waiting = one;
        if (attempt)
            json_object_set(delivery, "attempt", attempt);
        if (waiting && !attempt) {
            json_object_set(delivery, "state",
                            json_object_get(waiting, "state"));
            json_object_set(delivery, "circuit",
                            json_object_get(waiting, "circuit"));
        }
        ended = attempt != NULL;
        json_decref(reply);
        if (!ended)
            usleep(LOOK_MS * 1000);
    }
    if (!ended)
        json_object_set_new(delivery, "attempt", json_null());
}

static void print_attempt(const json_t *a)
{
    const char *status = text_of(a, "http_status"),
               *error = text_of(a, "error"),
               *next = text_of(a, "next_attempt_at"),
               *reason = text_of(a, "reason");
    bool waits = strcmp(text_of(a, "outcome"), "retrying") == 0;

    printf("attempt %s: ", text_of(a, "n"));
    if (*status)
        printf("status %s", status);
    if (*error && !*status)
        printf("%s", error);
    printf(", %s%s%s", waits ? "failed" : text_of(a, "outcome"),
           *reason ? ": " : "", reason);
    if (*next)
        printf(", next attempt at %s %s", time_of(a, "next_attempt_at"),
               when_zone());
    printf("\n");
}

static void print_retried(const json_t *d)
{
    const json_t *attempt = json_object_get(d, "attempt");
    const char *state = text_of(d, "state"), *circuit = text_of(d, "circuit"),
               *owner = text_of(d, "deliverer"), *why = text_of(d, "why");

    printf("%s  ", text_of(d, "endpoint"));
    if (!json_is_true(json_object_get(d, "accepted")))
        printf("not tried: %s\n", why);
    else if (json_is_object(attempt))
        print_attempt(attempt);
    else if (strcmp(text_of(d, "result"), "now") != 0)
        printf("%s\n", why);
    else if (strcmp(state, "in_flight") == 0)
        printf("an attempt is in progress at %s\n", owner);
    else if (strcmp(state, "unreachable") == 0)
        printf("due now, but %s does not respond; the attempt starts when it "
               "runs again, or when another deliverer takes over\n",
               owner);
    else if (*circuit && strcmp(circuit, "closed") != 0)
        printf("due now at %s; the circuit breaker of this endpoint is open, "
               "so it gets one attempt at a time, and this one is next\n",
               owner);
    else
        printf("due now at %s; it starts as soon as the endpoint's "
               "max_in_flight and rate_limit permit\n",
               owner);
}

/* ---- commands ---- */

/* A request that changes something. NULL: *code is the exit code, and the printed reason says
 * whether it was done. */
static json_t *act(struct ctl *c, const char *what, json_t *args, int *code)
{
    const char *id = c->parsed.args[0];
    bool unreachable;
    char why[200];
    json_t *reply;

    if (!args) {
        *code = complain(EXIT_USAGE, "the arguments are not UTF-8");
        return NULL;
    }
    need_run_dir(c);
    if (!process_listens(c, sequencer, why)) {
        json_decref(args);
        *code = complain_away(c, sequencer, why);
        complain(0, "nothing was done");
        return NULL;
    }
    reply = ask(c, sequencer, what, args, ASK_MS, &unreachable, why);
    if (!reply && unreachable)
        *code = complain(EXIT_UNAVAILABLE,
                         "the sequencer did not respond in time (%s), so the "
                         "result is not known; `grapnel trace %.60s` shows it",
                         why, id);
    else if (!reply)
        *code = complain(EXIT_REFUSED, "%s", why);
    return reply;
}

int run_retry(struct ctl *c)
{
    const char *id = c->parsed.args[0],
               *endpoint = parsed_value(&c->parsed, "--endpoint");
    json_t *args = json_pack("{s:s,s:s}", "event", id, "who", user_name()),
           *reply, *d;
    int code = EXIT_REFUSED;
    size_t i;

    if (!is_utf8("--endpoint", endpoint)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    if (endpoint)
        json_object_set_new(args, "endpoint", json_string(endpoint));
    reply = act(c, "retry", args, &code);
    if (!reply)
        return code;
    json_array_foreach(json_object_get(reply, "deliveries"), i, d)
    {
        const char *result = text_of(d, "result");

        if (json_is_true(json_object_get(d, "accepted")))
            code = 0;
        if (strcmp(result, "now") == 0 || strcmp(result, "in_flight") == 0)
            follow(c, id, d);
        else
            json_object_set_new(d, "attempt", json_null());
        if (!c->json)
            print_retried(d);
    }
    if (c->json)
        print_json(json_incref(reply));
    json_decref(reply);
    return code;
}

int run_abandon(struct ctl *c)
{
    const char *id = c->parsed.args[0],
               *endpoint = parsed_value(&c->parsed, "--endpoint"),
               *note = parsed_value(&c->parsed, "--note");
    json_t *reply;
    int code = 0;

    if (!endpoint)
        return complain(
            EXIT_USAGE,
            "--endpoint E is missing: it says which delivery to abandon");
    if (!note || !*note)
        return complain(EXIT_USAGE,
                        "--note TEXT is missing: it tells others the reason");
    reply = act(c, "abandon",
                json_pack("{s:s,s:s,s:s,s:s}", "event", id, "endpoint",
                          endpoint, "note", note, "who", user_name()),
                &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    if (!*text_of(reply, "dead_letter_id"))
        printf("%s is abandoned at %s, a temporary endpoint: it has no dead "
               "letter\n",
               id, endpoint);
    else
        printf("%s is abandoned at %s: dead letter %s\n", id, endpoint,
               text_of(reply, "dead_letter_id"));
    if (*text_of(reply, "dead_letter_id") &&
        json_is_true(json_object_get(reply, "in_flight")))
        printf("An attempt in progress may still reach the endpoint; if it "
               "succeeds, the dead letter becomes recovered.\n");
    json_decref(reply);
    return 0;
}
