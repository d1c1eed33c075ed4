#include "profile.h"
#include "bounds.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>

enum { KEYS_MAX = 2, PARTS_MAX = 3, FORWARD_MAX = 4, SPELLINGS_MAX = 4 };

#define HOUR_MS (60 * 60 * 1000LL)
#define DAY_MS  (24 * HOUR_MS)

struct profile {
    const char *name;
    const char *help;
    struct verify verify; /* header NULL: the file says it */
    /* Field expressions, as one would write them. */
    const char *id, *type, *action, *workspace;
    const char *keys[KEYS_MAX][PARTS_MAX + 1]; /* of dedupe */
    int64_t ttl_ms;
    const char *forward_headers[FORWARD_MAX];
    struct {
        const char *from, *to;
    } actions[SPELLINGS_MAX]; /* other spellings, as old versions send them */
};

static const struct profile profiles[] = {
    {
        .name = "plane",
        .help = "Plane. Its delivery id changes with each try and is not "
                "signed, so a repeat is known by the body's digest, within "
                "the hour in which Plane tries again.",
        .verify = {.header = (char *)(uintptr_t) "X-Plane-Signature",
                   .prefix = (char *)(uintptr_t) "",
                   .encoding = ENCODING_HEX,
                   .signed_content = (char *)(uintptr_t) "{body}"},
        .type = "header:X-Plane-Event",
        .action = "json:/action",
        .workspace = "json:/workspace_id",
        .keys = {{"source", "body_sha256"}},
        .ttl_ms = HOUR_MS,
        .forward_headers = {"X-Plane-Event", "X-Plane-Delivery"},
        .actions = {{"create", "created"},
                    {"update", "updated"},
                    {"delete", "deleted"}},
    },
    {
        .name = "custom",
        .help = "Says all of it itself. With an id and no dedupe of its own, "
                "a repeat is known by the id for 7 days.",
        .keys = {{"source", "id"}},
        .ttl_ms = 7 * DAY_MS,
    },
};

static const char *const planned[] = {
    "github",    "standard-webhooks",
    "stripe",    "slack",
    "shopify",   "omise",
    "linear",    "gitlab",
    "discord",   "zoom",
    "hubspot",   "paddle",
    "mailgun",   "sendgrid",
    "typeform",  "intercom",
    "zendesk",   "jira",
    "bitbucket", "sentry",
    "vercel",    "square",
    "twilio",    "paypal",
    "svix",
};

const struct profile *profile_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(profiles); i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

const char *profile_name(size_t i)
{
    return i < COUNT_OF(profiles) ? profiles[i].name : NULL;
}

bool profile_is_planned(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(planned); i++)
        if (strcmp(planned[i], name) == 0)
            return true;
    return false;
}

bool profile_is_custom(const struct profile *p)
{
    return p->verify.header == NULL;
}

const char *profile_help(const struct profile *p)
{
    return p->help;
}

/* ---- what the file left open ---- */

static void must_parse(struct expr *e, const char *text)
{
    const char *why;
    gr_rc rc = expr_parse(e, text, &why);

    assert(rc == GR_OK); /* the table above is ours */
    (void)rc;
}

static void fill_expr(struct expr *e, const char *text)
{
    if (e->kind == EXPR_NONE && text)
        must_parse(e, text);
}

static void fill_verify(struct verify *v, const struct verify *from)
{
    if (v->header || !from->header)
        return;
    *v = *from;
    v->header = gr_strdup(from->header);
    v->prefix = gr_strdup(from->prefix);
    v->signed_content = gr_strdup(from->signed_content);
}

static void add_key(struct dedupe *d, const char *const *parts)
{
    struct dedupe_key *key;

    d->keys = gr_realloc(d->keys, (d->count + 1) * sizeof *d->keys);
    key = &d->keys[d->count++];
    *key = (struct dedupe_key){
        .parts = gr_alloc(PARTS_MAX * sizeof *key->parts)};
    for (; parts[key->count]; key->count++)
        must_parse(&key->parts[key->count], parts[key->count]);
}

/* A key made of an id needs an id; without any key nothing is a repeat. */
static bool key_can_be_had(const struct source *source, const char *const *key)
{
    for (; *key; key++)
        if (strcmp(*key, "id") == 0 && source->id.kind == EXPR_NONE)
            return false;
    return true;
}

static void fill_dedupe(struct source *source, const struct profile *p)
{
    struct dedupe *d = &source->dedupe;

    if (d->none)
        return;
    if (d->count == 0)
        for (size_t i = 0; i < KEYS_MAX && p->keys[i][0]; i++)
            if (key_can_be_had(source, p->keys[i]))
                add_key(d, p->keys[i]);
    if (d->ttl_ms == 0)
        d->ttl_ms = p->ttl_ms;
    d->none = d->count == 0;
}

void profile_fill(struct source *source)
{
    const struct profile *p = source->profile;

    /* An action belongs to the profile's own type; who says another type
     * means all of it. */
    if (source->type.kind == EXPR_NONE)
        fill_expr(&source->action, p->action);
    fill_expr(&source->id, p->id);
    fill_expr(&source->type, p->type);
    fill_expr(&source->workspace, p->workspace);
    fill_verify(&source->verify, &p->verify);
    fill_dedupe(source, p);
    for (size_t i = 0; i < FORWARD_MAX && p->forward_headers[i]; i++)
        text_list_add(&source->forward_headers, p->forward_headers[i]);
}

/* ---- what an event is ---- */

static bool has_control(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < ' ' || p[i] == 127)
            return true;
    return false;
}

static bool is_utf8(const char *p, size_t n)
{
    json_t *text = json_stringn(p, n);

    json_decref(text);
    return text != NULL;
}

/* These texts become header values, columns and JSON. */
static const char *wrong_text(const char *p, size_t n)
{
    if (has_control(p, n))
        return "the value has control characters";
    return is_utf8(p, n) ? NULL : "the value is not UTF-8";
}

/* Appends the value to `out`; *found says whether there is one. */
static gr_rc field(const struct expr *e, struct subject *s, struct buf *out,
                   bool *found, const char **why)
{
    size_t before = out->len;

    *found = false;
    if (expr_value(e, s, out, why) != GR_OK)
        return *why == expr_not_there ? GR_OK : GR_REFUSE;
    *why = wrong_text(out->data + before, out->len - before);
    if (*why) {
        out->len = before;
        out->data[before] = 0;
        return GR_REFUSE;
    }
    *found = true;
    return GR_OK;
}

static gr_rc put_fallback(struct buf *out, const char *text, const char **why)
{
    *why = "no room for the value";
    buf_puts(out, text);
    return out->failed ? GR_REFUSE : GR_OK;
}

gr_rc profile_event_id(const struct source *source, struct subject *s,
                       struct buf *out, const char **why)
{
    bool found;

    return field(&source->id, s, out, &found, why);
}

gr_rc profile_workspace(const struct source *source, struct subject *s,
                        struct buf *out, const char **why)
{
    bool found;

    if (field(&source->workspace, s, out, &found, why) != GR_OK)
        return GR_REFUSE;
    return found ? GR_OK : put_fallback(out, "default", why);
}

static void even_out(char *text)
{
    for (; *text; text++) {
        *text = (char)tolower((unsigned char)*text);
        if (*text == ' ' || *text == '-')
            *text = '_';
    }
}

static const char *usual_action(const struct profile *p, const char *action)
{
    for (size_t i = 0; i < SPELLINGS_MAX && p->actions[i].from; i++)
        if (strcmp(p->actions[i].from, action) == 0)
            return p->actions[i].to;
    return action;
}

/* Behind the event's name, if there is an action. */
static gr_rc join_action(const struct source *source, struct subject *s,
                         struct buf *out, const char **why)
{
    struct buf action;
    bool found;
    gr_rc rc;

    buf_init(&action, TEXT_MAX_BYTES);
    rc = field(&source->action, s, &action, &found, why);
    if (rc == GR_OK && found) {
        even_out(action.data);
        buf_printf(out, ".%s", usual_action(source->profile, action.data));
        *why = "the value is too long";
        rc = out->failed ? GR_REFUSE : GR_OK;
    }
    buf_fini(&action);
    return rc;
}

gr_rc profile_type(const struct source *source, struct subject *s,
                   struct buf *out, const char **why)
{
    size_t before = out->len;
    bool found;

    if (field(&source->type, s, out, &found, why) != GR_OK)
        return GR_REFUSE;
    if (!found)
        return put_fallback(out, "unknown", why);
    if (source->action.kind == EXPR_NONE)
        return GR_OK;
    even_out(out->data + before);
    return join_action(source, s, out, why);
}
