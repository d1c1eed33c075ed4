/* reject_explain: the command that explains a refused request: reads it, has it diagnosed, and
 * writes the findings. */
#include "reject_explain.h"
#include "clock.h"
#include "conf.h"
#include "diagnosis.h"
#include "headers.h"
#include "ingress.h"
#include "json_text.h"
#include <stdlib.h>
#include <string.h>

enum { EVERY_US = 200 * 1000, AT_ONCE = 5 };

/* Its clock, when it was judged; `otherwise` for a head without it. */
static int64_t judged_ms(struct bytes head, int64_t otherwise)
{
    struct bytes value;
    char text[32];

    if (!headers_get(head, JUDGED_AT, &value, NULL) || value.n >= sizeof text)
        return otherwise;
    memcpy(text, value.p, value.n);
    text[value.n] = 0;
    return strtoll(text, NULL, 10);
}

static void explain_source(struct diagnosis *d, const struct settings *s,
                           const char *path)
{
    struct conf_near near = {.text = path + 4};
    char hint[100];

    if (strncmp(path, "/in/", 4) != 0)
        return;
    for (size_t i = 0; i < s->source_count; i++)
        conf_near_try(&near, s->sources[i].name);
    diagnosis_add(d, MISTAKE_SOURCE_UNKNOWN, true,
                  "Enter the URL with the name of a source at the provider, or "
                  "add the source to `grapnel.yaml`.",
                  "The path %.60s names no source%s.", path,
                  conf_near_hint(&near, hint));
}

/* NULL: all was compared. */
static const char *explain(struct diagnosis *d, struct ingress *g,
                           const struct reject_row *row, struct bytes head,
                           struct bytes body)
{
    const struct settings *s = g->daemon.settings;
    const struct source *source = settings_source(s, row->source);
    int64_t judged = judged_ms(head, row->at_ms);

    d->complete = true;
    if (strcmp(row->reason, "source_unknown") == 0) {
        explain_source(d, s, row->path);
        return NULL;
    }
    if (row->status != 401 || settings_producer(s, row->source))
        return "It was not refused because of the signature of a provider: "
               "`reason` says why.";
    if (!source)
        return "Its source is no longer configured.";
    if (!head.n)
        return "Its signature is not kept: the request is older than a day, "
               "or newer ones replaced it.";
    diagnose(d, &(struct diagnosed){.settings = s,
                                    .source = source,
                                    .headers = head,
                                    .body = body,
                                    .path = row->path,
                                    .judged_ms = judged,
                                    .stepped_ms = judged - row->at_ms});
    if (source->verify.scheme == SCHEME_SHARED_TOKEN && !d->count)
        return "Shared tokens of refused requests are not kept, so this one "
               "cannot be compared. Copy the token again from the provider.";
    return NULL;
}

static json_t *findings_json(const struct diagnosis *d)
{
    json_t *out = json_array();

    for (size_t i = 0; i < d->count; i++)
        json_array_append_new(
            out, json_pack("{s:s,s:b,s:o,s:o}", "mistake",
                           mistake_word(d->findings[i].mistake), "certain",
                           d->findings[i].certain, "text",
                           json_text_of(d->findings[i].text), "fix",
                           json_text_of(d->findings[i].fix)));
    return out;
}

json_t *reject_explain(void *self, json_t *args, char why[200])
{
    struct ingress *g = self;
    const char *id = json_string_value(json_object_get(args, "id")), *note;
    struct reject_store *store = &g->rejects.store;
    struct bytes body = {"", 0}, head = {"", 0};
    struct diagnosis d = {0};
    struct reject_row row;
    int64_t now_us = mono_us();
    json_t *out;

    if (!bucket_has(&g->rejects.explained, (AT_ONCE - 1) * EVERY_US, now_us)) {
        control_fail(why, CONTROL_LIMITED,
                     "at most %d requests are explained in a second: ask again",
                     AT_ONCE);
        return NULL;
    }
    if (!rejects_find(&g->rejects, g, id, &row, why))
        return NULL;
    bucket_take(&g->rejects.explained, EVERY_US, now_us);
    store_reject_body(store, id, &body, &head);
    note = explain(&d, g, &row, head, body);
    out = json_pack("{s:s,s:o,s:s,s:s,s:I,s:o,s:I,s:b,s:o,s:s}", "id", row.id,
                    "at", json_time(row.at_ms), "source", row.source, "reason",
                    row.reason, "status", (json_int_t)row.status, "findings",
                    findings_json(&d), "tried", (json_int_t)d.tried, "complete",
                    d.complete, "note", json_text_of(note), "process",
                    g->daemon.name);
    diagnosis_fini(&d);
    store_reject_body_done(store);
    store_reject_done(store);
    return out;
}
