/* parsed_event: what one request says about its event: id, type, workspace, the
 * keys by which a duplicate is recognised, its position in its stream. Pure.
 *
 * An event without a field that the source's configuration needs is refused; `refused`
 * says why. */
#ifndef SEQUENCER_PARSED_EVENT_H
#define SEQUENCER_PARSED_EVENT_H

#include "bounds.h"
#include "dedupe.h"
#include "settings.h"
#include "signed_part.h"

enum {
    KEYS_MAX = DEDUPE_KEYS_MAX + 1, /* with that of `window` */
    LABEL_MAX_BYTES = 255, /* of a type, a workspace, an object or a state */
    /* Why an event is ignored, or why no endpoint is subscribed to it. */
    EVENT_REASON_BYTES = 6 * (LABEL_MAX_BYTES + 1),
};

struct parsed_key {
    struct key key;
    int64_t ttl_ms;
    /* Its parts do not name the source. Databases from before keys contained the source have
     * it as `shared`, in common for all sources. */
    bool was_shared;
    struct key shared;
};

struct parsed_event {
    struct buf id, type, workspace;
    struct buf delivery_id; /* filled by the caller, if it has one */
    struct parsed_key keys[KEYS_MAX];
    size_t key_count;
    bool has_position; /* the source is ordered: … */
    int64_t position;  /* … its number, or its time in µs */
    struct buf object, state;
    bool has_signed; /* its source has `replays`, and it is one of those: … */
    struct key signed_part;
    const char *refused; /* NULL: all that it needs is there */
    char why[160];       /* what `refused` may point at */
};

/* Of a request that carries several events: the digest of its signed part, which its
 * elements do not have themselves. */
struct parsed_signed {
    bool has;
    uint8_t digest[SIGNED_PART_BYTES];
};
void parsed_event_signed(struct parsed_signed *f, const struct source *source,
                         struct subject *request);

/* `whole`: the request that this is element number `index` of; NULL: it is the request
 * itself. Fills all of it, and subject's id, type and workspace, which point into it.
 * parsed_event_fini() in any case. */
void parsed_event_make(struct parsed_event *f, const struct source *source,
                       struct subject *subject,
                       const struct parsed_signed *whole, size_t index);
/* Nothing but that it is refused. */
void parsed_event_refuse(struct parsed_event *f, const char *why);
void parsed_event_fini(struct parsed_event *f);

/* A number, a decimal number or RFC 3339: as µs. A plain number is seconds, or
 * by its size milliseconds or microseconds since 1970. */
GR_MUST_CHECK gr_rc parsed_event_time(const char *text, int64_t *us);

#endif
