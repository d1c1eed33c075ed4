/* against: what `check --against` shares: archived requests with what became of them, the judgement by
 * another configuration, and the differences. Only files of this folder include it. */
#ifndef CTL_AGAINST_H
#define CTL_AGAINST_H

#include "settings.h"
#include <jansson.h>

/* ---- archived requests (against_read.c) ---- */

/* A request of the archive; the reader owns everything until its next batch. */
struct archived_request {
    int64_t n; /* of its event in the sequencer; 0: not asked */
    int64_t received_ms;
    char *id, *source;
    struct bytes headers, body;
};

/* What the sequencer has recorded about an event; texts are borrowed until the next question. */
struct recorded {
    int64_t n, received_ms, status; /* enum recorded_status */
    const char *provider_id, *type, *workspace, *reason, *duplicate_of;
    bool numbered, reopened;
    int64_t source_sequence;
};
/* As in `events` of sequencer/store.sql. */
enum recorded_status {
    RECORDED_ROUTED = 0,
    RECORDED_DUPLICATE = 1,
    RECORDED_REFUSED = 2,
    RECORDED_BUFFERED = 3,
    RECORDED_IGNORED = 4,
    RECORDED_SPLIT = 8,
};

struct reading;

/* Opens the databases in state_dir for reading only. NULL: `why`. */
struct reading *reading_open(const char *state_dir, int64_t since_ms,
                             char why[300]);
void reading_close(struct reading *r);
/* The names of the processes whose archives are read. */
const struct string_list *reading_names(const struct reading *r);
/* The next requests, in the order in which the sequencer took them. Each batch is a read transaction
 * of milliseconds, and at most 1000 requests or about 16 MiB of each archive. *count 0: the end.
 * GR_REFUSE: a database cannot be read, or could not be for a question about the batch before, whose
 * answer was then wrong: `why`. */
GR_MUST_CHECK gr_rc reading_batch(struct reading *r,
                                  struct archived_request **all, size_t *count,
                                  char why[300]);
/* How much of the archives has been read, from 0 to 1. */
double reading_part(const struct reading *r);
/* false: the sequencer has no such event. */
bool reading_event(struct reading *r, const char *id, struct recorded *out);
/* Whether there are several archives, whose order among each other is only about right. */
bool reading_is_merged(const struct reading *r);
/* The id of the event of which event `n` is a duplicate; "": of none. Borrowed. */
const char *reading_duplicate_of(struct reading *r, int64_t n);
/* Each delivery of event `n`: the name of its endpoint, and whether an operator has sent it again. */
typedef void reading_delivery_fn(void *self, const char *endpoint,
                                 bool sent_again);
void reading_deliveries(struct reading *r, int64_t n, reading_delivery_fn *fn,
                        void *self);

/* ---- differences ---- */

#define DIFFERENCES(D)                                                      \
    D(REJECTED, "rejected", "ingress would refuse the request")             \
    D(SPLIT, "split", "its request would carry other events")               \
    D(REFUSED, "refused", "would be refused, and become a dead letter")     \
    D(NOT_REFUSED, "not_refused", "was refused, and would not be")          \
    D(ID, "id", "would have another id of the provider's")                  \
    D(TYPE, "type", "would have another type")                              \
    D(WORKSPACE, "workspace", "would have another workspace")               \
    D(DUPLICATE, "duplicate", "would be a duplicate, and not be delivered") \
    D(NOT_DUPLICATE, "not_duplicate",                                       \
      "was a duplicate, and would be delivered")                            \
    D(ORDER, "order", "would have another number in its stream")            \
    D(IGNORED, "ignored", "its transition would be invalid")                \
    D(NOT_IGNORED, "not_ignored",                                           \
      "its transition was invalid, and would not be")                       \
    D(ROUTED, "routed", "would also go to this endpoint")                   \
    D(NOT_ROUTED, "not_routed", "would no longer go to this endpoint")

enum difference {
#define D(NAME, word, text) DIFFERENCE_##NAME,
    DIFFERENCES(D)
#undef D
        DIFFERENCE_KINDS
};

struct report;

struct report *report_new(size_t examples);
void report_free(struct report *r);
/* `subject`: an endpoint for ROUTED and NOT_ROUTED, else the source. `before` and `after` may be NULL. */
void report_difference(struct report *r, enum difference kind,
                       const char *subject, const char *id, const char *before,
                       const char *after);
/* An event that could not be compared; `why`: a constant. */
void report_unjudged(struct report *r, const char *why);
/* A request whose signature could not be verified. */
void report_unverified(struct report *r, const char *source, const char *why);
/* Counts each event that was compared. */
void report_judged(struct report *r);
/* {"judged", "differences", "unjudged", "unverified"}; the caller's. */
json_t *report_json(const struct report *r);

/* ---- judging (against_judge.c) ---- */

/* Secrets that this shell lacks have this value, so that the file can be read. */
#define UNSET_SECRET "whsec_Z3JhcG5lbC11bnNldC12YXJpYWJsZS0wMTIzNDU="

struct judging;

struct judging *judging_new(const struct settings *settings,
                            struct reading *reading, struct report *report);
void judging_free(struct judging *j);
/* Compares what the settings make of the request with what was recorded. */
void judging_request(struct judging *j, const struct archived_request *r);

#endif
