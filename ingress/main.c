#include "archive_replay.h"
#include "ingress.h"
#include "rejects.h"
#include "request_trace.h"
#include "show_request.h"

static const struct metric metrics[COUNT_COUNT + 1] = {
#define C(NAME, name, kind, unit, help) \
    {"grapnel_ingress_" name, kind, unit, help},
    COUNTS(C)
#undef C
#define A(NAME, status, code, reason, message, retry_after_s, close)           \
    {"grapnel_ingress_responses_" reason "_total", METRIC_COUNTER, "requests", \
     "responses with status " #status " and reason " reason},
        RESPONSES(A)
#undef A
            {0},
};

static const struct metric_family families[FAMILY_COUNT + 1] = {
    [FAMILY_REJECTED] = {.name = "grapnel_ingress_rejected_total",
                         .kind = METRIC_COUNTER,
                         .unit = "requests",
                         .help = "refused requests, by source (empty for an "
                                 "unknown one) and reason",
                         .labels = {"source", "reason"}},
    [FAMILY_ACCEPTED] = {.name = "grapnel_ingress_source_accepted_total",
                         .kind = METRIC_COUNTER,
                         .unit = "events",
                         .help = "accepted events, by source",
                         .labels = {"source"}},
    [FAMILY_OLDEST] = {.name = "grapnel_ingress_backlog_oldest_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help = "age of the oldest event that the sequencer has "
                               "not processed; 0: there is none",
                       .per = 1000},
    [FAMILY_COUNT] = {0},
};

static const struct control_command commands[] = {
    {"find", "id",
     "the newest requests that carry this id of the provider's as the value of "
     "a "
     "header, or as a string in the body: {\"events\":[[id, received_ms, "
     "source, "
     "received_at]…],\"looked_at\":…,\"back_to\":…}",
     trace_find},
    {"trace", "id event",
     "what the archive has of a request, and how often the event was sent "
     "again",
     trace_event},
    {"request", "id event offset as_sent",
     "a request as it came (event: of several, the body of this one; as_sent: "
     "of "
     "a producer's, the body that endpoints get of the event with this id): "
     "what "
     "it is, headers with offset 0, and body_b64, a piece of its body_bytes at "
     "offset",
     show_request},
    {"reject", "id offset", "the same of a request that was refused",
     show_reject},
    {"rejects", "source id since_ms until_ms limit",
     "requests that were refused, newest first (id: of the provider's "
     "delivery, "
     "where a header has it)",
     rejects_show},
    {"archive", "since_ms until_ms source limit after waiting",
     "what the archive has, oldest first (waiting: only what the sequencer has "
     "not acknowledged): {\"events\":[[id, received_ms, source, "
     "received_at]…],\"next\":…}; go on with \"after\": next until that is "
     "null",
     replay_archive},
    {"resend", "events endpoint always new_id who",
     "deliver these again ({\"id\"}, or {\"id\",\"request\"} for one of a "
     "request of several): {\"resent\":[{\"id\",\"new_id\"}…],"
     "\"missing\":[id…]}",
     replay_resend},
    {0},
};

static const struct links_ops links_ops = {.load = ingress_load};

static const struct daemon_plan plan = {
    .process = "ingress",
    .default_name = "ingress",
    .summary = "receives webhooks over HTTP and stores them",
    .schema = &ingress_schema,
    .links = &links_ops,
    .commands = commands,
    .metrics = metrics,
    .families = families,
    .open = ingress_open,
    .frame = ingress_frame,
    .work = ingress_work,
    .after_commit = ingress_after_commit,
    .meanwhile = ingress_meanwhile,
    .stands_in = true,
    .undo = ingress_undo,
    .reload = ingress_reload,
    .stopped = ingress_stopped,
    .close = ingress_close,
    .measure = ingress_measure,
    .state = ingress_state,
};

/* grapnel-ingress: takes webhooks in over HTTP, checks who sent them, keeps
 * them, and hands them on to the sequencer.
 *
 * Promises  a 200 means that the raw request (all headers, raw body, time,
 *           source) is on disk, fsync done (P1); a stored request is sent
 *           until the sequencer has it; a forged or stale request is refused
 *           with one and the same 401, its reason in log and counters (P7)
 * Reads     POST /in/SOURCE, /v1/events and /v1/events/batch; GET and HEAD
 *           /healthz (200: HTTP works; says
 *           when the disk stalls) and /readyz (200: events are accepted);
 *           `acked` from the sequencer
 * Writes    NAME.db: the archive, refused requests; `accepted` to the sequencer
 * Refuses   with 503 and Retry-After: while the disk is below its mark or full,
 *           while what could not be handed on fills archive.max_size, while
 *           stopping, while a write to the disk has not ended for 5 s (those who
 *           wait for it, too, though it may store them), when storing is too late, when the bodies being
 *           read fill their memory. With 4xx what no repetition makes better.
 * Bounds    body, head, number of connections, and time of each request
 * SIGTERM   listens no more, finishes what it has read, hands on what the
 *           sequencer takes now, exits 0
 * kill -9   costs nothing that was answered; a request cut off may be on disk
 *           already, and the provider's repetition is recognised behind us */
int main(int argc, char **argv)
{
    static struct ingress ingress;
    struct daemon_plan mine = plan;

    mine.self = &ingress;
    mine.metric_values = ingress.counts;
    daemon_start(&ingress.daemon, &mine, argc, argv);
    return daemon_run(&ingress.daemon);
}
