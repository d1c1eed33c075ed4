/* drill: the steps of `grapnel drill`, and the judgement of a receiver's responses. */
#include "drill.h"
#include <stddef.h>

#define MINUTES_MS  (60 * 1000LL)
#define STALE_MS    (10 * MINUTES_MS)
#define LARGE_BYTES (900 * 1024)
#define SLOW_BYTES  (192 * 1024)
#define SLOW_RATE   (64 * 1024)

/* Events that a receiver refuses have the number of the next one that it gets. */
const struct drill_request drill_requests[] = {
    {"plain", .unmarked = true, .event = 1, .sequence = 1},
    {"unknown_header", .event = 2, .sequence = 2, .previous = 1},
    {"wrong_signature", .secrets = DRILL_WRONG, .expected = DRILL_REFUSED,
     .event = 3, .sequence = 3, .previous = 2},
    {"unsigned", .secrets = DRILL_NONE, .expected = DRILL_REFUSED, .event = 4,
     .sequence = 3, .previous = 2},
    {"stale", .expected = DRILL_REFUSED, .event = 5, .sequence = 3,
     .previous = 2, .signed_offset_ms = -STALE_MS},
    {"future", .expected = DRILL_REFUSED, .event = 6, .sequence = 3,
     .previous = 2, .signed_offset_ms = STALE_MS},
    {"second_secret", .secrets = DRILL_SECOND, .event = 7, .sequence = 3,
     .previous = 2},
    {"once", .event = 8, .sequence = 4, .previous = 3},
    {"duplicate", .event = 8, .sequence = 4, .previous = 3, .attempt = 2},
    {"replay", .event = 8, .sequence = 4, .previous = 3, .attempt = 3,
     .replay = true},
    {"at_once", .expected = DRILL_NOT_LOST, .event = 9, .sequence = 5,
     .previous = 4, .with_next = true},
    {"at_once", .expected = DRILL_NOT_LOST, .event = 9, .sequence = 5,
     .previous = 4, .attempt = 2},
    {"large", .event = 10, .sequence = 6, .previous = 5,
     .padding = LARGE_BYTES},
    {"slow", .event = 11, .sequence = 7, .previous = 6, .padding = SLOW_BYTES,
     .bytes_per_s = SLOW_RATE},
    {"early", .event = 12, .sequence = 9, .previous = 8},
    {"reordered", .event = 13, .sequence = 8, .previous = 7},
    {"gap", .event = 14, .sequence = 14, .previous = 13},
    {"new_series", .event = 15, .series = 1, .sequence = 1, .previous = 17},
    {"afterwards", .event = 16, .sequence = 15, .previous = 14},
};
const int drill_count = (int)COUNT_OF(drill_requests);
const int drill_marked_first = 1;
_Static_assert(COUNT_OF(drill_requests) <= DRILL_REQUESTS_MAX,
               "there is no space for a response");

/* What is wrong if the expectation of a step is not met. */
static const struct {
    const char *step, *defect, *text, *fix;
} defects[] = {
    {"unknown_header", "knows_all_headers",
     "It refuses a request with a `grapnel-` header that it does not know.",
     "Sign the headers that arrived, not a fixed list: all that begin with "
     "`grapnel-`, sorted by name."},
    {"wrong_signature", "accepts_wrong_signature",
     "It accepts a request that is signed with another secret.",
     "Compare the signatures before anything else, and respond 401."},
    {"unsigned", "accepts_unsigned", "It accepts a request without signatures.",
     "Refuse a request that lacks `webhook-signature` or `grapnel-signature`: "
     "an attacker would leave them out."},
    {"stale", "accepts_stale",
     "It accepts a request that was signed 10 minutes ago.",
     "Refuse a `webhook-timestamp` that is more than 5 minutes from your "
     "clock."},
    {"future", "accepts_future",
     "It accepts a request that was signed 10 minutes in the future.",
     "Refuse a `webhook-timestamp` that is more than 5 minutes from your "
     "clock, in both directions."},
    {"second_secret", "checks_one_signature",
     "It refuses a request whose second signature is right.",
     "Accept a request if one of its signatures is right: while a secret is "
     "changed there are two."},
    {"once", "fails", "It does not accept an ordinary event.",
     "Respond 2xx when the event is stored."},
    {"duplicate", "refuses_duplicate",
     "It does not respond 2xx to an event that it has had.",
     "Respond 2xx to a `webhook-id` that you have stored, and skip it: Grapnel "
     "repeats an event whose response was lost."},
    {"replay", "refuses_replay",
     "It does not respond 2xx to an event that an operator sends again.",
     "Treat `grapnel-replay` like a duplicate, if you have the `webhook-id`."},
    {"at_once", "loses_concurrent",
     "It refuses one of two requests with the same id at the same time, so "
     "that the event would become a dead letter.",
     "Let a unique index decide, and respond 2xx to both, or 503 to one."},
    {"early", "refuses_early",
     "It refuses an event whose previous one has not arrived.",
     "Accept events in any order, unless the endpoint has `ordered`: a lower "
     "number after a higher one is normal."},
    {"reordered", "refuses_reordered",
     "It refuses an event with a lower number than the last one.",
     "Accept events in any order. If only the newest state counts, skip the "
     "older one and respond 2xx."},
    {"gap", "refuses_gap", "It refuses an event after a gap in the numbers.",
     "Accept it and note the missing number: the event may be on its way, or "
     "a dead letter."},
    {"new_series", "refuses_new_series", "It refuses an event of a new series.",
     "Keep numbers for each `grapnel-series`: after a restore of Grapnel a new "
     "one begins."},
    {"large", "refuses_large", "It refuses a body of 900 KiB.",
     "Raise the limit of your server and of the proxy in front of it to "
     "`ingress.max_body` (1 MiB by default)."},
    {"slow", "refuses_slow",
     "It refuses a body of 128 KiB that arrives within 2 seconds.",
     "Raise the time that your server, and the proxy in front of it, wait for "
     "a request."},
    {"afterwards", "fails_afterwards",
     "After the other requests it does not accept an ordinary event.",
     "See in its log which of them it did not survive."},
};

static bool accepted(const struct drill_response *r)
{
    return r->status >= 200 && r->status < 300;
}

static bool same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

struct judging {
    struct drill_finding *findings;
    int count;
};

static void add(struct judging *j, int request, const char *defect,
                const char *text, const char *fix, bool advice)
{
    if (j->count < DRILL_FINDINGS_MAX)
        j->findings[j->count++] = (struct drill_finding){request, defect, text,
                                                         fix, advice};
}

static void add_defect(struct judging *j, int request)
{
    for (size_t i = 0; i < COUNT_OF(defects); i++)
        if (same(defects[i].step, drill_requests[request].step))
            add(j, request, defects[i].defect, defects[i].text, defects[i].fix,
                false);
}

/* A forged request. */
static void judge_refusal(struct judging *j, int i,
                          const struct drill_response *r)
{
    if (accepted(r))
        add_defect(j, i);
    else if (r->status == 410)
        add(j, i, "refuses_with_410",
            "It responds 410 to a request that is not valid.",
            "Respond 401: 410 disables the endpoint, so anybody who knows the "
            "URL and a secret of the past could.",
            false);
    else if (r->retried)
        add(j, i, "refuses_with_retry",
            "It responds to a request that is not valid with a status that is "
            "retried, or not at all.",
            "Respond 401: otherwise each such request comes again for a day.",
            false);
}

/* Whether the first request of a step was judged already: a step may have two. */
static bool is_named(const struct judging *j, int i)
{
    for (int k = 0; k < j->count; k++)
        if (same(drill_requests[j->findings[k].request].step,
                 drill_requests[i].step))
            return true;
    return false;
}

static bool fails(const struct drill_request *q, const struct drill_response *r)
{
    if (q->expected == DRILL_NOT_LOST)
        return !accepted(r) && !r->retried;
    return !accepted(r);
}

/* Its body takes its time. */
static bool is_long(const struct drill_request *q)
{
    return q->padding > 0;
}

static void judge_times(struct judging *j, const struct drill_response *all,
                        int64_t timeout_ms)
{
    bool kept = false;
    int reused = 0;

    for (int i = 0; i < drill_count; i++) {
        const struct drill_request *q = &drill_requests[i];

        if (!all[i].asked || !accepted(&all[i]) || is_long(q))
            continue;
        kept |= i > 0 && !all[i].connected;
        reused += i > 0;
        if (all[i].total_ms > (double)timeout_ms / 2) {
            add(j, i, "slow_response",
                "It needs more than half of the endpoint's `timeout` for a "
                "response.",
                "Store the event, respond, and do the work afterwards: an "
                "event whose response takes too long is sent again.",
                false);
            break;
        }
    }
    if (reused > 3 && !kept)
        add(j, 0, "closes_connections",
            "It closes the connection after each response.",
            "Keep connections for more than 60 s: each new one costs time, "
            "with TLS several times that of a request.",
            true);
}

int drill_judge(const struct drill_response all[DRILL_REQUESTS_MAX],
                int64_t timeout_ms,
                struct drill_finding findings[DRILL_FINDINGS_MAX])
{
    struct judging j = {.findings = findings};
    bool follows = false; /* the last step would only repeat a defect */

    for (int i = 1; i < drill_count; i++) {
        if (!all[i].asked || (follows && i == drill_count - 1))
            continue;
        follows |= drill_requests[i].expected == DRILL_ACCEPTED &&
                   fails(&drill_requests[i], &all[i]);
        if (drill_requests[i].expected == DRILL_REFUSED)
            judge_refusal(&j, i, &all[i]);
        else if (fails(&drill_requests[i], &all[i]) && !is_named(&j, i))
            add_defect(&j, i);
    }
    judge_times(&j, all, timeout_ms);
    return j.count;
}

const char *drill_unjudged(const struct drill_response *first)
{
    if (accepted(first))
        return NULL;
    if (first->status == 0)
        return "It does not respond: `grapnel endpoints test` shows why.";
    if (first->status >= 300 && first->status < 400)
        return "It responds with a redirect, which Grapnel never follows: give "
               "the endpoint the final URL.";
    if (first->status == 401 || first->status == 403)
        return "It refuses an event that is signed correctly: it has another "
               "secret, its clock is wrong, or it does not verify the bytes of "
               "the body that it received.";
    if (first->status == 404 || first->status == 405)
        return "The URL of the endpoint is wrong, or it does not accept this "
               "method.";
    return "It does not accept an event of this type and body: use --type and "
           "--body with one of yours, or let it respond 2xx to types that it "
           "does not know.";
}
