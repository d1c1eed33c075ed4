/* profile: reads profiles.yaml, fills what a source leaves open, and reads the fields of an
 * event. */
#include "profile.h"
#include "bounds.h"
#include "json_text.h"
#include "settings_types.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

struct profile {
    char *name, *title, *secret, *setup, *failure, *notes;
    char *order_notes, *states_notes;
    struct order order;        /* suggested; ORDER_ARRIVAL: none */
    struct state_rules states; /* suggested */
    struct verify verify;      /* unset: grapnel.yaml must have it */
    struct expr id, delivery_id, type, action, workspace, mode;
    struct dedupe dedupe;
    struct string_list forward_headers;
    struct string_list spellings; /* "create>created" */
    bool batch;
    struct provider_list list;
    struct example {
        char *type, *body, *workspace;
    } example;
    struct source
        plain; /* a source of this profile without settings of its own */
};

/* ---- profiles.yaml ---- */

static const struct conf_key example_keys[] = {
    KEY(string, profile, example.type, "type", NULL, NULL),
    KEY(string, profile, example.body, "body", NULL, NULL),
    KEY(string, profile, example.workspace, "workspace", NULL, NULL),
    {0},
};

static const struct conf_section example_section = {
    .name = "example",
    .keys = example_keys,
};

static const struct conf_key profile_keys[] = {
    KEY(string, profile, name, "name", NULL, NULL),
    KEY(string, profile, title, "title", NULL, NULL),
    KEY(string, profile, secret, "secret", NULL, NULL),
    KEY(string, profile, setup, "setup", NULL, NULL),
    KEY(string, profile, failure, "failure", NULL, NULL),
    KEY(string, profile, notes, "notes", NULL, NULL),
    KEY(map, profile, order, "order", NULL, NULL, .section = &order_section),
    KEY(string, profile, order_notes, "order_notes", NULL, NULL),
    KEY(map, profile, states, "states", NULL, NULL, .section = &states_section,
        .flags = CONF_OPTIONAL),
    KEY(string, profile, states_notes, "states_notes", NULL, NULL),
    KEY(map, profile, verify, "verify", NULL, NULL, .section = &settings_verify,
        .flags = CONF_OPTIONAL),
    KEY(expr, profile, id, "id", NULL, NULL),
    KEY(expr, profile, delivery_id, "delivery_id", NULL, NULL),
    KEY(expr, profile, type, "type", NULL, NULL),
    KEY(expr, profile, action, "action", NULL, NULL),
    KEY(expr, profile, workspace, "workspace", NULL, NULL),
    KEY(expr, profile, mode, "mode", NULL, NULL),
    KEY(dedupe, profile, dedupe, "dedupe", NULL, NULL,
        .section = &settings_dedupe),
    KEY(strings, profile, forward_headers, "forward", NULL, NULL,
        .check = wrong_forward_header),
    KEY(strings, profile, spellings, "spellings", NULL, NULL),
    KEY(boolean, profile, batch, "batch", NULL, NULL),
    KEY(map, profile, list, "list", NULL, NULL, .section = &settings_listing,
        .flags = CONF_OPTIONAL),
    SECTION("example", &example_section, NULL),
    {0},
};

static const struct conf_section profile_section = {
    .name = "profile",
    .size = sizeof(struct profile),
    .keys = profile_keys,
};

struct profiles {
    struct profile *all;
    size_t count;
};

static const struct conf_key profiles_keys[] = {
    LIST(profiles, all, count, "profiles", &profile_section, NULL),
    {0},
};

static const struct conf_section profiles_section = {
    .name = "profiles.yaml",
    .keys = profiles_keys,
};

extern const char config_profiles_yaml[];

/* Read once and kept. Errors in it are bugs of ours. */
static const struct profiles *profiles(void)
{
    static struct profiles all;
    struct buf errors;
    struct conf *c;

    if (all.count)
        return &all;
    c = conf_open(NULL);
    conf_read_text(c, "profiles.yaml", config_profiles_yaml, &profiles_section,
                   &all);
    buf_init(&errors, 1024 * 1024);
    if (!conf_close(c, &errors))
        die(EXIT_CONFIG, "%s", errors.data);
    buf_fini(&errors);
    for (size_t i = 0; i < all.count; i++) {
        all.all[i].plain.provider = all.all[i].name;
        all.all[i].plain.profile = &all.all[i];
        profile_fill(&all.all[i].plain);
    }
    return &all;
}

const struct provider_list *profile_listing(const struct profile *p)
{
    return p->list.time.kind == EXPR_NONE ? NULL : &p->list;
}

const struct provider_list *source_listing(const struct source *s)
{
    if (s->reconcile.list.time.kind != EXPR_NONE)
        return &s->reconcile.list;
    return s->profile ? profile_listing(s->profile) : NULL;
}

const char *source_listing_url(const struct source *s)
{
    const struct provider_list *list = source_listing(s);

    return s->reconcile.url ? s->reconcile.url : list ? list->url : NULL;
}

const struct source *profile_source(const struct profile *p)
{
    return &p->plain;
}

const struct profile *profile_find(const char *name)
{
    const struct profiles *p = profiles();

    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->all[i].name, name) == 0)
            return &p->all[i];
    return NULL;
}

const char *profile_name(size_t i)
{
    const struct profiles *p = profiles();

    return i < p->count ? p->all[i].name : NULL;
}

bool profile_is_custom(const struct profile *p)
{
    return verify_unset(&p->verify);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

struct profile_words profile_words(const struct profile *p)
{
    return (struct profile_words){
        .name = p->name,
        .title = or_empty(p->title),
        .secret = or_empty(p->secret),
        .setup = or_empty(p->setup),
        .failure = or_empty(p->failure),
        .notes = or_empty(p->notes),
        .order_notes = or_empty(p->order_notes),
        .states_notes = or_empty(p->states_notes),
        .example_type = p->example.type,
        .example_body = p->example.body,
        .example_workspace = p->example.workspace,
    };
}

bool profile_has_order(const struct profile *p)
{
    return p->order.by != ORDER_ARRIVAL;
}

bool profile_has_states(const struct profile *p)
{
    return p->states.object.kind != EXPR_NONE;
}

const struct order *profile_order(const struct profile *p)
{
    return &p->order;
}

const struct state_rules *profile_states(const struct profile *p)
{
    return &p->states;
}

/* ---- what the file left open ---- */

static void copy_strings(struct string_list *to, const struct string_list *from)
{
    for (size_t i = 0; i < from->count; i++)
        string_list_add(to, from->items[i]);
}

static void fill_suggested(struct source *source, const struct profile *p)
{
    struct order *o = &source->order;
    struct state_rules *r = &source->states;

    if (o->suggested) {
        o->by = p->order.by;
        o->or_arrival = p->order.or_arrival;
        o->window_ms = p->order.window_ms;
        o->buffer = p->order.buffer;
        expr_copy(&o->timestamp, &p->order.timestamp);
    }
    if (r->suggested) {
        r->or_arrival = p->states.or_arrival;
        r->invalid_is_dead = p->states.invalid_is_dead;
        expr_copy(&r->object, &p->states.object);
        expr_copy(&r->state, &p->states.state);
        copy_strings(&r->types, &p->states.types);
        copy_strings(&r->initial, &p->states.initial);
        copy_strings(&r->transitions, &p->states.transitions);
    }
}

static void fill_expr(struct expr *e, const struct expr *from)
{
    if (e->kind == EXPR_NONE)
        expr_copy(e, from);
}

/* A key made of an id needs an id; without any key, no event is a duplicate. */
static bool key_can_be_had(const struct source *source,
                           const struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        if (key->parts[i].kind == EXPR_ID && source->id.kind == EXPR_NONE)
            return false;
    return true;
}

static void add_key(struct dedupe *d, const struct dedupe_key *from)
{
    struct dedupe_key *key;

    d->keys = gr_realloc(d->keys, (d->count + 1) * sizeof *d->keys);
    key = &d->keys[d->count++];
    *key = (struct dedupe_key){
        .count = from->count,
        .parts = gr_alloc(from->count * sizeof *key->parts)};
    for (size_t i = 0; i < from->count; i++)
        expr_copy(&key->parts[i], &from->parts[i]);
}

static void fill_dedupe(struct source *source, const struct profile *p)
{
    struct dedupe *d = &source->dedupe;

    if (d->none)
        return;
    if (d->count == 0)
        for (size_t i = 0; i < p->dedupe.count; i++)
            if (key_can_be_had(source, &p->dedupe.keys[i]))
                add_key(d, &p->dedupe.keys[i]);
    if (d->ttl_ms == 0)
        d->ttl_ms = p->dedupe.ttl_ms;
    if (d->replays_ms == 0)
        d->replays_ms = p->dedupe.replays_ms;
    fill_expr(&d->unique, &p->dedupe.unique);
    d->none = d->count == 0 && d->replays_ms <= 0;
}

void profile_fill(struct source *source)
{
    const struct profile *p = source->profile;

    /* The action belongs to the profile's own type; a source with another type has to name
     * the action, too. */
    if (source->type.kind == EXPR_NONE)
        fill_expr(&source->action, &p->action);
    fill_expr(&source->id, &p->id);
    fill_expr(&source->delivery_id, &p->delivery_id);
    fill_expr(&source->type, &p->type);
    fill_expr(&source->workspace, &p->workspace);
    fill_expr(&source->mode, &p->mode);
    /* clock_skew in the file overrides the profile's. */
    if (verify_unset(&source->verify) && !profile_is_custom(p)) {
        settings_verify_forget(&source->verify);
        verify_copy(&source->verify, &p->verify);
        if (source->clock_skew_ms)
            source->verify.past_ms = source->verify.future_ms = 0;
    }
    if (!source->clock_skew_ms)
        source->clock_skew_ms = PROFILE_CLOCK_SKEW_MS;
    fill_dedupe(source, p);
    fill_suggested(source, p);
    source->batch |= p->batch;
    copy_strings(&source->forward_headers, &p->forward_headers);
}

/* ---- what an event is ---- */

/* These strings become header values, columns and JSON. */
static const char *wrong_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < ' ' || p[i] == 127)
            return "the value has control characters";
    return utf8_valid((struct bytes){p, n}) ? NULL : "the value is not UTF-8";
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
    *why = "no space for the value";
    buf_puts(out, text);
    return out->failed ? GR_REFUSE : GR_OK;
}

gr_rc profile_event_id(const struct source *source, struct subject *s,
                       struct buf *out, const char **why)
{
    bool found;

    return field(&source->id, s, out, &found, why);
}

void profile_delivery_id(const struct source *source, struct subject *s,
                         struct buf *out)
{
    const char *why;
    bool found;

    if (source->delivery_id.kind == EXPR_NONE)
        return;
    if (field(&source->delivery_id, s, out, &found, &why) != GR_OK ||
        out->failed)
        buf_reset(out);
}

gr_rc profile_workspace(const struct source *source, struct subject *s,
                        struct buf *out, const char **why)
{
    bool found;

    if (field(&source->workspace, s, out, &found, why) != GR_OK)
        return GR_REFUSE;
    return found ? GR_OK : put_fallback(out, "default", why);
}

const char *profile_mode(const struct source *source, struct subject *s)
{
    static const char *const words[][2] = {
        {"true", "live"},       {"false", "test"},  {"live", "live"},
        {"test", "test"},       {"1", "live"},      {"0", "test"},
        {"production", "live"}, {"sandbox", "test"}};
    const char *mode = NULL, *why;
    struct buf value;

    if (!source || source->mode.kind == EXPR_NONE)
        return NULL;
    subject_for_log(s);
    buf_init(&value, TEXT_MAX_BYTES);
    if (expr_value(&source->mode, s, &value, &why) == GR_OK)
        for (size_t i = 0; i < COUNT_OF(words); i++)
            if (strcasecmp(value.data, words[i][0]) == 0)
                mode = words[i][1];
    buf_fini(&value);
    return mode;
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
    size_t n = strlen(action);

    for (size_t i = 0; i < p->spellings.count; i++) {
        const char *spelling = p->spellings.items[i];

        if (strncmp(spelling, action, n) == 0 && spelling[n] == '>')
            return spelling + n + 1;
    }
    return action;
}

/* Appends the action, if there is one, to the event's name. */
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
