/* profile: what Grapnel knows about a provider, so that its source needs only a secret: one
 * table that people can read and extend (profiles.yaml, compiled in), and the pure
 * functions that apply it.
 *
 * `custom` has nothing; its source sets everything. */
#ifndef CONFIG_PROFILE_H
#define CONFIG_PROFILE_H

#include "settings.h"

/* The permitted difference to a signed time if neither the file nor the profile has one. */
#define PROFILE_CLOCK_SKEW_MS (5 * 60 * 1000LL)

struct profile;

/* NULL: there is no such profile. */
const struct profile *profile_find(const char *name);
/* The names of all profiles, in order; NULL after the last. */
const char *profile_name(size_t i);
/* Whether the file has to set the signature scheme itself. */
bool profile_is_custom(const struct profile *p);
/* A source without settings of its own, as this profile fills it. Borrowed. */
const struct source *profile_source(const struct profile *p);

/* How its provider lists events; NULL: it is not known. Borrowed. */
const struct provider_list *profile_listing(const struct profile *p);
/* The same of a source: of its own settings, or of its profile; NULL: it is not known. */
const struct provider_list *source_listing(const struct source *s);
/* The URL of the list, a template; NULL: the source has to say it. */
const char *source_listing_url(const struct source *s);

/* Its texts, for documents. All are borrowed. */
struct profile_words {
    const char *name;
    const char *title, *secret, *setup, *failure, *notes, *order_notes,
        *states_notes; /* "" where the profile has no text */
    const char *example_type, *example_body; /* NULL: none */
    const char *example_workspace;           /* NULL: any */
};
struct profile_words profile_words(const struct profile *p);

/* Whether it suggests an order, and states, for `order: suggested` and `states: suggested`. */
bool profile_has_order(const struct profile *p);
bool profile_has_states(const struct profile *p);
/* What it suggests; unset where it has no suggestion. Borrowed. */
const struct order *profile_order(const struct profile *p);
const struct state_rules *profile_states(const struct profile *p);

/* Fills what the file left open of a source: verify, expressions, idempotency keys and
 * their ttl, headers to forward. source->profile is set before. */
void profile_fill(struct source *source);

/* The fields of an event. Each appends to `out` (give it TEXT_MAX_BYTES); `why` is as in
 * expr_value().
 *
 * GR_REFUSE: the request has the field in a form that cannot be used (the body is not JSON,
 * an object where a text is expected, control characters, not UTF-8); the event becomes a
 * dead letter, `refused`. A missing field becomes `default` (workspace) or `unknown`
 * (type); a missing id is GR_OK and leaves `out` unchanged.
 *
 * The type joins the profile's event and action, with one spelling: issue + update is
 * issue.updated. */
GR_MUST_CHECK gr_rc profile_event_id(const struct source *source,
                                     struct subject *s, struct buf *out,
                                     const char **why);
/* The provider's id of this delivery, by which the event can be found. Nothing else depends
 * on it, so an unusable one is left out: `out`, which must be empty, stays empty. */
void profile_delivery_id(const struct source *source, struct subject *s,
                         struct buf *out);
GR_MUST_CHECK gr_rc profile_type(const struct source *source, struct subject *s,
                                 struct buf *out, const char **why);
/* For a log line: "live" or "test" (static) if the provider says which; else NULL. `source`
 * may be NULL. */
const char *profile_mode(const struct source *source, struct subject *s);

GR_MUST_CHECK gr_rc profile_workspace(const struct source *source,
                                      struct subject *s, struct buf *out,
                                      const char **why);

#endif
