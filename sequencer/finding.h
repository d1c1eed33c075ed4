/* finding: what one request says about its event: id, type, workspace, the
 * keys by which a repeat is known, its place in its stream. Pure.
 *
 * A field that the source's configuration needs and that can't be had makes
 * the event refused; `refused` says why. */
#ifndef SEQUENCER_FINDING_H
#define SEQUENCER_FINDING_H

#include "bounds.h"
#include "dedupe.h"
#include "settings.h"
#include "signed_part.h"

enum {
    KEYS_MAX = DEDUPE_KEYS_MAX + 1, /* with that of `window` */
    LABEL_MAX_BYTES = 255, /* of a type, a workspace, an object or a state */
};

struct found_key {
    struct key key;
    int64_t ttl_ms;
    /* Its parts do not name the source, and a store of before the source was part
     * of every key has it as `shared`, which all sources had in common. */
    bool was_shared;
    struct key shared;
};

struct finding {
    struct buf id, type, workspace;
    struct buf delivery_id; /* filled by the caller, if it has one */
    struct found_key keys[KEYS_MAX];
    size_t key_count;
    bool placed;   /* the source is ordered: … */
    int64_t place; /* … its number, or its time in µs */
    struct buf object, state;
    bool has_signed; /* its source has `replays`, and it is one of those: … */
    struct key signed_part;
    const char *refused; /* NULL: all that it needs is there */
    char why[160];       /* what `refused` may point at */
};

/* Of a request that carries several events: the digest of what is signed of it, which
 * its elements do not have themselves. */
struct found_signed {
    bool has;
    uint8_t digest[SIGNED_PART_BYTES];
};
void finding_signed(struct found_signed *f, const struct source *source,
                    struct subject *request);

/* `whole`: the request that this is element number `index` of; NULL: it is the request
 * itself. Fills all of it, and subject's id, type and workspace, which point into it.
 * finding_fini() in any case. */
void finding_make(struct finding *f, const struct source *source,
                  struct subject *subject, const struct found_signed *whole,
                  size_t index);
/* Nothing but that it is refused. */
void finding_none(struct finding *f, const char *why);
void finding_fini(struct finding *f);

/* A number, a decimal number or RFC 3339: as µs. A plain number is seconds, or
 * by its size milliseconds or microseconds since 1970. */
GR_MUST_CHECK gr_rc finding_time(const char *text, int64_t *us);

#endif
