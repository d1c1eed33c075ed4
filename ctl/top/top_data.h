/* top_data: what `grapnel top` shows, as numbers. Pure: from what was published
 * and what was answered, to one struct that the view lays out. */
#ifndef CTL_TOP_DATA_H
#define CTL_TOP_DATA_H

#include "bounds.h"
#include "collector.h"
#include <jansson.h>

enum top_state { TOP_UP, TOP_SILENT, TOP_DOWN };

/* A process that is there, or should be. */
struct top_seen {
    const char *name;
    bool listens; /* somebody is behind its control socket */
};

/* Responses are borrowed; NULL: there is none (the reason is in its `why`). */
struct top_input {
    struct collector *collector;
    const struct top_seen *seen;
    size_t seen_count;
    /* Of the configuration; NULL after the last. */
    const char *const *endpoints;
    const json_t *endpoint_list; /* the sequencer's `endpoints` */
    const json_t *gap_list;      /* its `gaps`, open ones */
    const json_t *alert_list;    /* the console's `alerts` */
    const char *sequencer_why, *console_why;
    int64_t began_mono_ms, mono_ms, now_ms, stale_ms;
};

/* Unknown numbers are NAN. */
struct top_process {
    char name[NAME_MAX_BYTES + 1];
    enum top_state state;
    int64_t silent_ms; /* of TOP_SILENT */
    double up_s, backlog, commit_p99_s, store_bytes, free_bytes;
};

/* How urgently it needs attention. */
enum top_mark { MARK_NONE, MARK_WARNING, MARK_TROUBLE };

struct top_endpoint {
    char name[METRIC_LABEL_BYTES + 1];
    char state[16]; /* "" : not known */
    char trouble[80];
    enum top_mark mark;
    double weight; /* the heavier the worse */
    double rate, failed, p95_s, in_flight, waiting, retrying;
    bool waiting_more; /* at least that many */
    /* Sums from which the above are made. */
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
    double duplicates, failed; /* parts of one */
    double p50_s, p95_s, p99_s;
    /* What waits, by stage. */
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
/* The caller's. */
json_t *top_data_json(const struct top_data *f);

const char *top_state_name(enum top_state s);

#endif
