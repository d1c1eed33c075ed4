/* mask: "…" instead of what must not be stored, or not be shown, of a request's
 * head. Pure.
 *
 * Shared tokens are not stored: where nothing is signed, a token would open the source to
 * every reader of a database or a backup. Of the header or query field that has one only
 * the token goes; signatures stay. It is looked for where a source's `verify`, and that
 * of each built-in profile, says; as credentials of HTTP (Authorization); and, wherever
 * else, by its value. A token in a body stays there: a body is delivered as it came. */
#ifndef CONFIG_MASK_H
#define CONFIG_MASK_H

#include "settings.h"

#define MASKED "…"

struct mask {
    const struct source *source; /* NULL: not known */
    /* NULL, or what all of its sources say counts: a token may come to a wrong URL. */
    const struct settings *settings;
    /* Also what only proves who sent it, or looks like a secret by its name. */
    bool for_display;
};

/* The packed head (headers.h) with what is masked; appended to `out`. */
void mask_head(const struct mask *m, struct bytes packed, struct buf *out);
/* One value; the name decides, as of a header or `:query`. Appended. */
void mask_value(const struct mask *m, struct bytes name, struct bytes value,
                struct buf *out);
/* A text that is no header, by the values of tokens alone. Appended. */
void mask_text(const struct mask *m, struct bytes text, struct buf *out);
/* Is there anything to be masked in a head of this source's? It costs less. */
bool mask_has(const struct mask *m, struct bytes packed);

/* [[name, value], …] for display: order and repeated names as they came. The caller's. */
struct json_t *mask_json(const struct settings *settings, const char *source,
                         struct bytes packed);

/* Where a stored head has masked tokens: ["X-Gitlab-Token", "query:token"]. The
 * caller's. */
struct json_t *mask_places(const struct source *source, struct bytes packed);

#endif
