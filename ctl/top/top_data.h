/* top_data: what `grapnel top` shows, as numbers and texts. Pure: from the collected metrics and
 * the replies of processes it makes one struct, which top_view lays out or --json prints. */
#ifndef CTL_TOP_DATA_H
#define CTL_TOP_DATA_H

#include "bounds.h"
#include "collector.h"
#include <jansson.h>

enum top_state { TOP_UP, TOP_SILENT, TOP_DOWN };

/* A process that runs or should run. */
struct top_seen {
    const char *name;
    bool listens; /* it accepts connections on its control socket */
    char *host;   /* where it runs, if not here; the feed's. Or NULL */
};

/* Replies are borrowed; NULL: there is none, and the reason is in `*_why`. */
struct top_input {
    struct collector *collector;
    const struct top_seen *seen;
    size_t seen_count;
    const char *const *endpoints; /* in the configuration; ends with NULL */
    const json_t *endpoint_list;  /* rows of the sequencer's `endpoints` */
    const json_t *gap_list;       /* the open `gaps` of the sequencer */
    const json_t *alert_list;     /* the console's `alerts` */
    const char *sequencer_why, *console_why;
    int64_t began_mono_ms, mono_ms, now_ms, stale_ms;
};

enum { TOP_HOST_BYTES = 128 };

/* Unknown numbers are NAN. */
struct top_process {
    char name[NAME_MAX_BYTES + 1];
    char host[TOP_HOST_BYTES]; /* "": this one */
    enum top_state state;
    int64_t silent_ms; /* of TOP_SILENT */
    double up_s, backlog, commit_p99_s, store_bytes, free_bytes;
};

/* How urgently it needs attention. */
enum top_mark { MARK_NONE, MARK_WARNING, MARK_TROUBLE };

struct top_endpoint {
    char name[METRIC_LABEL_BYTES + 1];
    char state[16]; /* "": unknown */
    char trouble[80];
    enum top_mark mark;
    double weight; /* larger: worse */
    double rate, failed, p95_s, in_flight, waiting, retrying;
    bool waiting_more; /* `waiting` or more */
    /* Sums from which the above are computed. */
    double good, bad, halted, disabled, held, failing_s, breaker;
    bool no_owner, known;
};

struct top_gap {
    char *id, *source, *workspace, *numbers;
    int64_t age_ms;
};

struct top_alert {
    char *name, *severity, *subject, *state, *summary;
    int64_t age_ms;
};

struct top_data {
    int64_t now_ms;
    /* Per second. */
    double accepted, refused, delivered, dead, attempts;
    double duplicates, failed; /* ratios */
    double p50_s, p95_s, p99_s;
    /* Events and deliveries that wait, by stage. */
    double at_ingress, to_sequencer, held, waiting, out, retrying, dead_letters,
        oldest_s;
    double gaps_open;
    struct top_process *processes;
    struct top_endpoint *endpoints;
    struct top_gap *gaps;
    struct top_alert *alerts;
    size_t process_count, endpoint_count, gap_count, alert_count;
    char sequencer_why[100], console_why[100]; /* "": it responds */
};

void top_data_build(struct top_data *f, const struct top_input *in);
void top_data_fini(struct top_data *f);
/* The document of --json; unknown numbers are null. The caller's. */
json_t *top_data_json(const struct top_data *f);

const char *top_state_name(enum top_state s);

#endif
