/* parsed_event: what one request says about its event: id, type, workspace, the keys by which a
 * duplicate is recognised, its position in its stream, its object's state. Pure; the sequencer
 * decides with it.
 *
 * An event that lacks a field that the source's configuration needs is refused; `refused`
 * says why. Its type and workspace are cut if they are longer than LABEL_MAX_BYTES. */
#ifndef INTAKE_PARSED_EVENT_H
#define INTAKE_PARSED_EVENT_H

#include "bounds.h"
#include "dedupe.h"
#include "settings.h"
#include "signed_part.h"

enum {
    KEYS_MAX = DEDUPE_KEYS_MAX + 1, /* one is that of `window` */
    LABEL_MAX_BYTES = 255, /* of a type, a workspace, an object or a state */
    /* Why an event is ignored, or why no endpoint is subscribed to it. */
    EVENT_REASON_BYTES = 6 * (LABEL_MAX_BYTES + 1),
};

struct parsed_key {
    struct key key;
    int64_t ttl_ms;
    /* The configuration's parts do not name the source. Databases from before keys contained
     * the source have the key as `shared`, in common for all sources. */
    bool was_shared;
    struct key shared;
};

struct parsed_event {
    struct buf id, type, workspace;
    struct buf delivery_id; /* the caller fills it */
    struct parsed_key keys[KEYS_MAX];
    size_t key_count;
    bool has_position;   /* the source is ordered, by: */
    int64_t position;    /* its number, or its time in µs */
    bool has_transition; /* of this object, to this state: */
    struct buf object, state;
    bool has_signed; /* its source has `dedupe.replays`, and it has: */
    struct key signed_part;
    const char *refused; /* why the event is refused; NULL: it is not */
    char why[160];       /* `refused` may point here */
};

/* The digest of a request's signed part. If the request carries several events, they share
 * it. */
struct parsed_signed {
    bool has;
    uint8_t digest[SIGNED_PART_BYTES];
};
void parsed_event_signed(struct parsed_signed *f, const struct source *source,
                         struct subject *request);

/* Fills `f`, and the subject's id, type and workspace, which point into it. `whole`: of the
 * request of which this is event number `index`; NULL: it is the only one. Call
 * parsed_event_fini() in any case. */
void parsed_event_make(struct parsed_event *f, const struct source *source,
                       struct subject *subject,
                       const struct parsed_signed *whole, size_t index);
/* Fills only `refused`. */
void parsed_event_refuse(struct parsed_event *f, const char *why);
void parsed_event_fini(struct parsed_event *f);

/* RFC 3339, or a number since 1970 (seconds, or by its size milliseconds or microseconds), as
 * µs. */
GR_MUST_CHECK gr_rc parsed_event_time(const char *text, int64_t *us);

#endif
