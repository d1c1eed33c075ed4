#include "backfill.h"
#include "clock.h"
#include "log.h"
#include "sequencer.h"
#include "store_order.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void backfill_ask(struct sequencer *q, const struct source *source,
                  const struct gap_row *g)
{
    char *name = gr_printf(BACKFILL_PREFIX "%s", source->name);
    char *gap = gr_printf("gap_%lld", (long long)g->id), *body;
    struct endpoint *e = endpoint_find(q, name);
    char at[RFC3339_BYTES];
    json_t *j;

    rfc3339(at, g->opened_ms);
    j = json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:s}", "gap", gap, "source",
                  g->source, "workspace", g->workspace, "type", g->type, "from",
                  (json_int_t)g->span.first, "to", (json_int_t)g->span.last,
                  "opened_at", at);
    body = j ? json_dumps(j, JSON_COMPACT) : NULL;
    if (e && body)
        intake_own(q, e, "gap.opened", g->workspace, wire_text(body),
                   g->opened_ms + source->order.give_up_after_ms);
    else
        log_error(NULL, "what is missing can't be asked for", LS("gap", gap));
    free(body);
    free(name);
    free(gap);
    json_decref(j);
}

/* All that is not unreserved in RFC 3986. */
static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            buf_put(out, text, 1);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
    }
}

static void put_value(struct buf *out, const json_t *body, const char *name,
                      size_t n)
{
    const json_t *v = json_object_getn(body, name, n);

    if (json_is_integer(v))
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_string(v))
        put_escaped(out, json_string_value(v));
}

void backfill_url(const char *template, struct bytes body, struct buf *out)
{
    json_t *j = json_loadb(body.p, body.n, 0, NULL);

    while (*template) {
        size_t n = strcspn(template, "{");

        buf_put(out, template, n);
        template += n;
        n = strcspn(template, "}");
        if (*template == '{' && template[n]) {
            put_value(out, j, template + 1, n - 1);
            template += n + 1;
        }
    }
    json_decref(j);
}
