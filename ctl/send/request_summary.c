/* request_summary: reads id, type, workspace and idempotency keys of a request. */
#include "request_summary.h"
#include "bounds.h"
#include "json_text.h"
#include "profile.h"
#include "split.h"
#include <stdio.h>

typedef gr_rc read_fn(const struct source *source, struct subject *s,
                      struct buf *out, const char **why);

static void read_one(struct request_summary *f, read_fn *read, const char *what,
                     const struct source *source, struct subject *s,
                     struct buf *out)
{
    const char *why = "";

    if (read(source, s, out, &why) != GR_OK && !*f->refused)
        snprintf(f->refused, sizeof f->refused, "its %s could not be read: %s",
                 what, why);
    buf_put(out, "", 0); /* so that `data` is never NULL */
}

/* The body, or the first event of a body that contains several. */
static struct bytes first_event(struct request_summary *f,
                                const struct source *source, struct bytes body)
{
    struct split parts = {0};
    const char *why = NULL;

    f->count = 1;
    if (!source->batch)
        return body;
    if (split_body(body, &parts, &why) != GR_OK)
        snprintf(f->refused, sizeof f->refused, "%s", why);
    if (parts.count) {
        f->count = parts.count;
        body = parts.parts[0];
    }
    split_fini(&parts);
    return body;
}

void request_summary_read(struct request_summary *f,
                          const struct source *source, struct bytes headers,
                          struct bytes body)
{
    struct subject s = {.source = source->name,
                        .provider = source->provider,
                        .headers = headers};

    *f = (struct request_summary){0};
    s.body = first_event(f, source, body);
    buf_init(&f->id, TEXT_MAX_BYTES);
    buf_init(&f->type, TEXT_MAX_BYTES);
    buf_init(&f->workspace, TEXT_MAX_BYTES);
    read_one(f, profile_event_id, "id", source, &s, &f->id);
    read_one(f, profile_type, "type", source, &s, &f->type);
    read_one(f, profile_workspace, "workspace", source, &s, &f->workspace);
    subject_fini(&s);
}

void request_summary_fini(struct request_summary *f)
{
    buf_fini(&f->id);
    buf_fini(&f->type);
    buf_fini(&f->workspace);
}

json_t *request_summary_dedupe(const struct request_summary *f,
                               const struct source *source,
                               struct bytes headers, struct bytes body)
{
    struct subject s = {.source = source->name,
                        .provider = source->provider,
                        .id = f->id.len ? f->id.data : NULL,
                        .type = f->type.data,
                        .workspace = f->workspace.data,
                        .headers = headers};
    struct request_summary unused = {0};
    json_t *out = json_array();
    const char *why;

    s.body = first_event(&unused, source, body);

    for (size_t i = 0; !source->dedupe.none && i < source->dedupe.count; i++) {
        const struct dedupe_key *key = &source->dedupe.keys[i];
        json_t *parts = json_object();

        for (size_t k = 0; k < key->count; k++) {
            struct buf name, value;
            bool have;

            buf_init(&name, TEXT_MAX_BYTES);
            buf_init(&value, TEXT_MAX_BYTES);
            expr_print(&key->parts[k], &name);
            have = expr_value(&key->parts[k], &s, &value, &why) == GR_OK &&
                   value.len;
            json_object_set_new(
                parts, name.data,
                have ? json_text((struct bytes){value.data, value.len})
                     : json_null());
            buf_fini(&name);
            buf_fini(&value);
        }
        json_array_append_new(out, json_pack("{s:o}", "keys", parts));
    }
    subject_fini(&s);
    return out;
}
