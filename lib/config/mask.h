/* mask: replaces the parts of a request's headers and query that must not be stored, or not
 * be shown, by "…". Pure.
 *
 * Shared tokens are not stored: where requests are not signed, a token would let every
 * reader of a database or a backup send events. Only the token is replaced in its header or
 * query field; signatures stay. A token is searched in the place that the source's `verify`
 * names, and that of each built-in profile; in HTTP credentials (Authorization); and
 * everywhere else by its value. A token in a body stays, because a body is delivered
 * unchanged. */
#ifndef CONFIG_MASK_H
#define CONFIG_MASK_H

#include "settings.h"

#define MASKED "…"

struct mask {
    const struct source *source; /* NULL: not known */
    /* If not NULL, the `verify` of all its sources counts: a token may be sent to a wrong
     * URL. */
    const struct settings *settings;
    /* Masks signatures and fields whose names mean a secret, too. */
    bool for_display;
};

/* Appends the packed headers (headers.h), masked, to `out`. */
void mask_head(const struct mask *m, struct bytes packed, struct buf *out);
/* Appends one value, masked; the name, of a header or `:query`, decides how. */
void mask_value(const struct mask *m, struct bytes name, struct bytes value,
                struct buf *out);
/* Appends a text that is not a header; only the values of tokens are masked. */
void mask_text(const struct mask *m, struct bytes text, struct buf *out);
/* Whether there is anything to mask in headers of this source. It is cheaper. */
bool mask_has(const struct mask *m, struct bytes packed);

/* [[name, value], …] for display: order and repeated names as they were sent. The caller
 * owns it. */
struct json_t *mask_json(const struct settings *settings, const char *source,
                         struct bytes packed);

/* Where stored headers have masked tokens: ["X-Gitlab-Token", "query:token"]. The caller
 * owns it. */
struct json_t *mask_places(const struct source *source, struct bytes packed);

#endif
