/* profile: what we know about a provider, so that its source needs only a
 * secret: one table that people can read and extend (profiles.yaml, compiled
 * in), and the pure functions that apply it.
 *
 * `custom` knows nothing; its source says all of it. */
#ifndef CONFIG_PROFILE_H
#define CONFIG_PROFILE_H

#include "settings.h"

/* How far a signed time may be off where neither the file nor the profile says. */
#define PROFILE_CLOCK_SKEW_MS (5 * 60 * 1000LL)

struct profile;

/* NULL: there is no such profile. */
const struct profile *profile_find(const char *name);
/* Names of all, in order; NULL past the end. */
const char *profile_name(size_t i);
/* The file must bring the signature scheme itself. */
bool profile_is_custom(const struct profile *p);
/* A source that says nothing itself, as this profile fills it. Borrowed. */
const struct source *profile_source(const struct profile *p);

/* For people. All borrowed. */
struct profile_words {
    const char *name;
    const char *title, *secret, *failure, *notes; /* "" where nothing is said */
    const char *example_type, *example_body;      /* NULL: none */
    const char *example_workspace;                /* NULL: any */
};
struct profile_words profile_words(const struct profile *p);

/* Give the source what its file left open: verify, expressions, dedupe keys
 * and their ttl, headers to forward. source->profile is set. */
void profile_fill(struct source *source);

/* What the event is. Each appends to `out` (give it TEXT_MAX_BYTES); `why` is
 * as in expr_value().
 *
 * GR_REFUSE: the request has the field in a form that cannot be used (body no
 * JSON, an object where a text is meant, control characters, no UTF-8); the
 * event is a dead letter, `refused`. A field that is simply absent is `default`
 * (workspace), `unknown` (type), or nothing at all (id: GR_OK, `out` stays).
 *
 * The type joins the profile's event and action and evens out spellings:
 * issue + update is issue.updated. */
GR_MUST_CHECK gr_rc profile_event_id(const struct source *source,
                                     struct subject *s, struct buf *out,
                                     const char **why);
/* The provider's id of this delivery, to find the event by; nothing is decided by it,
 * so one that can't be used is left out: `out`, which must be empty, stays so. */
void profile_delivery_id(const struct source *source, struct subject *s,
                         struct buf *out);
GR_MUST_CHECK gr_rc profile_type(const struct source *source, struct subject *s,
                                 struct buf *out, const char **why);
/* For a log line: "live" or "test" (static) where the provider says which; else
 * NULL. `source` may be NULL. */
const char *profile_mode(const struct source *source, struct subject *s);

GR_MUST_CHECK gr_rc profile_workspace(const struct source *source,
                                      struct subject *s, struct buf *out,
                                      const char **why);

#endif
