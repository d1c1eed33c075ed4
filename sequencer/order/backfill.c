/* backfill: asks a source for missing events, by a request to its `order.backfill` URL. */
#include "backfill.h"
#include "bounds.h"
#include "clock.h"
#include "event_intake.h"
#include "log.h"
#include "sequencer.h"
#include "store_order.h"
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_value(struct buf *out, const json_t *body, const char *name,
                      size_t n)
{
    const json_t *v = json_object_getn(body, name, n);
    const char *text = json_string_value(v); /* NULL: it is not a string */

    if (json_is_integer(v))
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    /* Percent-encode all but the unreserved characters of RFC 3986. */
    for (; text && *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            buf_put(out, text, 1);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
    }
}

/* ---- values that would change the path ---- */

/* Remove one level of percent-encoding. */
static void decode(char *text)
{
    char *to = text;
    unsigned c;

    for (; *text; text++) {
        if (*text == '%' && isxdigit((unsigned char)text[1]) &&
            isxdigit((unsigned char)text[2]) &&
            sscanf(text + 1, "%2x", &c) == 1 && c) {
            *to++ = (char)c;
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
}

/* A \ separates segments as a / does: some servers treat it so. */
static bool has_dot_segment(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/\\");

        if ((n == 1 && path[0] == '.') ||
            (n == 2 && path[0] == '.' && path[1] == '.'))
            return true;
        path += n + (path[n] != 0);
    }
    return false;
}

/* Clients remove dot segments before they send (RFC 3986, 5.2.4), also encoded
 * ones (WHATWG URL); servers decode %2F and do the same, some of them twice. */
bool backfill_climbs(const char *url)
{
    const char *path = strstr(url, "://");
    char *text;
    bool climbs;

    path = path ? path + 3 : url;
    path += strcspn(path, "/?");
    text = gr_strndup(path, strcspn(path, "?"));
    climbs = has_dot_segment(text);
    for (int i = 0; i < 2 && !climbs; i++) {
        decode(text);
        climbs = has_dot_segment(text);
    }
    free(text);
    return climbs;
}

gr_rc backfill_url(const char *template, struct bytes body, struct buf *out)
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
    return out->failed || !out->len || backfill_climbs(out->data) ? GR_REFUSE
                                                                  : GR_OK;
}

/* The body of the request; its fields are also the placeholders of the URL. The caller frees it;
 * NULL: out of memory. */
static char *call_body(const struct gap_row *g)
{
    char *gap = gr_printf("gap_%lld", (long long)g->id), *body;
    char at[RFC3339_BYTES];
    json_t *j;

    rfc3339(at, g->opened_ms);
    j = json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:s}", "gap", gap, "source",
                  g->source, "workspace", g->workspace, "type", g->type, "from",
                  (json_int_t)g->span.first, "to", (json_int_t)g->span.last,
                  "opened_at", at);
    body = j ? json_dumps(j, JSON_COMPACT) : NULL;
    free(gap);
    json_decref(j);
    return body;
}

const char *backfill_wrong(const struct source *source, const struct gap_row *g)
{
    char *body = call_body(g);
    struct buf url;
    gr_rc rc;

    buf_init(&url, URL_MAX_BYTES);
    rc = body ? backfill_url(source->order.backfill, wire_text(body), &url)
              : GR_REFUSE;
    buf_fini(&url);
    free(body);
    if (rc == GR_OK)
        return NULL;
    log_warn(
        NULL,
        "order.backfill is not called for a gap: its workspace or type would "
        "change the path of the URL; put the placeholder after the ?",
        LS("source", g->source), LS("workspace", g->workspace),
        LS("type", g->type), LI("first", g->span.first),
        LI("last", g->span.last));
    return "order.backfill was not called: the workspace or type would change "
           "the path of its URL";
}

void backfill_ask(struct sequencer *q, const struct source *source,
                  const struct gap_row *g)
{
    char *name = gr_printf(BACKFILL_PREFIX "%s", source->name),
         *body = call_body(g);
    struct endpoint *e = endpoint_find(q, name);

    if (e && body)
        intake_internal(q, e, "gap.opened", g->workspace, wire_text(body),
                        g->opened_ms + source->order.give_up_after_ms);
    else
        log_error(NULL,
                  "the missing events cannot be requested from order.backfill",
                  LI("gap", g->id));
    free(body);
    free(name);
}
