/* parsed_event: what a request says about its event, by its source's expressions. */
#include "parsed_event.h"
#include "bounds.h"
#include "clock.h"
#include "profile.h"
#include "route.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void init(struct parsed_event *f)
{
    memset(f, 0, sizeof *f);
    buf_init(&f->id, TEXT_MAX_BYTES);
    buf_init(&f->delivery_id, TEXT_MAX_BYTES);
    buf_init(&f->type, TEXT_MAX_BYTES);
    buf_init(&f->workspace, TEXT_MAX_BYTES);
    buf_init(&f->object, TEXT_MAX_BYTES);
    buf_init(&f->state, TEXT_MAX_BYTES);
}

void parsed_event_fini(struct parsed_event *f)
{
    buf_fini(&f->id);
    buf_fini(&f->delivery_id);
    buf_fini(&f->type);
    buf_fini(&f->workspace);
    buf_fini(&f->object);
    buf_fini(&f->state);
}

void parsed_event_refuse(struct parsed_event *f, const char *why)
{
    init(f);
    f->refused = why;
}

/* ---- keys ---- */

/* false: the request has no such value. */
static bool put_part(struct buf *text, const struct expr *part,
                     struct subject *subject)
{
    struct buf value;
    const char *why;
    bool whole;

    buf_init(&value, TEXT_MAX_BYTES);
    whole = expr_value(part, subject, &value, &why) == GR_OK && !value.failed;
    expr_print(part, text);
    buf_printf(text, " %zu:", value.len);
    buf_put(text, value.data, value.len);
    buf_fini(&value);
    return whole;
}

/* The source is a part of every key, or one tenant's ids would suppress another's events. It is
 * put before the parts of a key that does not name it, so that the text of a key is the same
 * whether the configuration names the source first or not at all. */
static void add_key(struct parsed_event *f, const struct expr *parts,
                    size_t count, const char *kind, int64_t ttl_ms,
                    struct subject *subject)
{
    static const struct expr source = {.kind = EXPR_SOURCE};
    struct parsed_key key = {.ttl_ms = ttl_ms};
    bool whole = true, named = false;
    struct buf text;
    size_t own;

    for (size_t i = 0; i < count; i++)
        named |= parts[i].kind == EXPR_SOURCE;
    buf_init(&text, 17 * TEXT_MAX_BYTES);
    buf_puts(&text, kind);
    if (!named)
        whole = put_part(&text, &source, subject);
    own = text.len;
    for (size_t i = 0; i < count && whole; i++)
        whole = put_part(&text, &parts[i], subject);
    if (whole && !text.failed && f->key_count < KEYS_MAX) {
        key.key = key_make(text.data, text.len);
        key.was_shared = !named;
        if (!named)
            key.shared = key_make(text.data + own, text.len - own);
        f->keys[f->key_count++] = key;
    }
    buf_fini(&text);
}

static void find_keys(const struct source *source, struct subject *subject,
                      struct parsed_event *f)
{
    static const struct expr same[] = {{.kind = EXPR_SOURCE},
                                       {.kind = EXPR_WORKSPACE},
                                       {.kind = EXPR_TYPE},
                                       {.kind = EXPR_BODY_SHA256}};
    const struct dedupe *d = &source->dedupe;

    if (d->none)
        return;
    for (size_t i = 0; i < d->count; i++)
        add_key(f, d->keys[i].parts, d->keys[i].count, "", d->ttl_ms, subject);
    if (d->window_ms)
        add_key(f, same, COUNT_OF(same), "window ", d->window_ms, subject);
}

/* ---- the signed part ---- */

static bool is_unique(const struct expr *e, struct subject *subject)
{
    struct buf value;
    const char *why;
    bool is;

    if (e->kind == EXPR_NONE)
        return true;
    buf_init(&value, TEXT_MAX_BYTES);
    is = expr_value(e, subject, &value, &why) == GR_OK;
    buf_fini(&value);
    return is;
}

void parsed_event_signed(struct parsed_signed *f, const struct source *source,
                         struct subject *request)
{
    const struct dedupe *d = &source->dedupe;

    *f = (struct parsed_signed){0};
    if (!d->none && d->replays_ms > 0 && is_unique(&d->unique, request))
        f->has = signed_part_digest(source, request, f->digest) == GR_OK;
}

/* The source is a part of the key: sources may share a secret, and a request is verified for
 * each of them. */
static void find_signed(const struct source *source,
                        const struct parsed_signed *whole, size_t index,
                        struct parsed_event *f)
{
    struct buf text;

    f->has_signed = whole->has;
    if (!whole->has)
        return;
    buf_init(&text, TEXT_MAX_BYTES);
    buf_printf(&text, "signed %zu:%s %zu ", strlen(source->name), source->name,
               index);
    buf_put(&text, whole->digest, sizeof whole->digest);
    f->signed_part = key_make(text.data, text.len);
    buf_fini(&text);
}

/* ---- the position in a stream ---- */

static void refuse(struct parsed_event *f, const char *what, const char *why)
{
    snprintf(f->why, sizeof f->why, "%s: %s", what, why);
    f->refused = f->why;
}

/* The digits after a point, as millionths; moves *p past them. */
static int64_t millionths(const char **p)
{
    int64_t us = 0, unit = 100000;

    if (**p != '.' || !isdigit((unsigned char)(*p)[1]))
        return 0;
    for ((*p)++; isdigit((unsigned char)**p); (*p)++, unit /= 10)
        us += (**p - '0') * unit;
    return us;
}

/* The number of digits decides: up to 11 are seconds (to the year 5138), up to 14 milliseconds,
 * more microseconds. */
static gr_rc number_us(const char *text, int64_t *us)
{
    size_t n = strspn(text, "0123456789");
    int64_t v, unit;
    const char *p = text + n;

    if (n < 1 || n > 16)
        return GR_REFUSE;
    v = strtoll(text, NULL, 10);
    unit = n <= 11 ? 1000000 : n <= 14 ? 1000 : 1;
    *us = v * unit + millionths(&p) * unit / 1000000;
    return *p ? GR_REFUSE : GR_OK;
}

gr_rc parsed_event_time(const char *text, int64_t *us)
{
    if (rfc3339_parse(text, strlen(text), RFC3339_FULL, us))
        return GR_OK;
    return number_us(text, us);
}

static void find_position(const struct source *source, struct subject *subject,
                          struct parsed_event *f)
{
    const struct order *o = &source->order;
    bool by_time = o->by == ORDER_TIMESTAMP;
    const char *what = by_time ? "order.timestamp" : "order.sequence";
    const char *why = NULL;
    struct buf text;

    if (o->by == ORDER_ARRIVAL || f->refused)
        return;
    buf_init(&text, TEXT_MAX_BYTES);
    if (expr_value(by_time ? &o->timestamp : &o->sequence, subject, &text,
                   &why) != GR_OK) {
        refuse(f, what, why);
    } else if (by_time && parsed_event_time(text.data, &f->position) != GR_OK) {
        refuse(f, what,
               "the value is not a time (RFC 3339, or "
               "a number since 1970)");
    } else if (!by_time && (!text.len || text.len > 18 ||
                            strspn(text.data, "0123456789") != text.len)) {
        refuse(f, what, "the value is not a number from 0 to 10^18");
    } else {
        if (!by_time)
            f->position = strtoll(text.data, NULL, 10);
        f->has_position = true;
    }
    if (f->refused && o->or_arrival)
        f->refused = NULL;
    buf_fini(&text);
}

/* ---- the transition ---- */

static void find_word(const struct expr *e, const char *what,
                      struct subject *subject, struct buf *out,
                      struct parsed_event *f)
{
    const char *why = NULL;

    if (expr_value(e, subject, out, &why) != GR_OK)
        refuse(f, what, why);
    else if (out->failed || out->len > LABEL_MAX_BYTES)
        refuse(f, what, "the value is too long");
}

static void find_transition(const struct source *source,
                            struct subject *subject, struct parsed_event *f)
{
    const struct state_rules *r = &source->states;

    if (f->refused || r->object.kind == EXPR_NONE ||
        !route_list_takes(&r->types, f->type.data))
        return;
    find_word(&r->object, "states.object", subject, &f->object, f);
    if (!f->refused)
        find_word(&r->state, "states.state", subject, &f->state, f);
    f->has_transition = !f->refused;
    if (r->or_arrival)
        f->refused = NULL;
}

/* The row of a refused event gets what fits: searches match patterns against it. The end shows that
 * it was cut, or the event would seem to belong to a workspace whose name begins so. */
static void cut_label(struct buf *label)
{
    static const char cut[] = "\u2026";

    if (label->len <= LABEL_MAX_BYTES)
        return;
    label->len = LABEL_MAX_BYTES - strlen(cut);
    while (label->len && (label->data[label->len] & 0xc0) == 0x80)
        label->len--; /* a whole character of UTF-8 */
    buf_puts(label, cut);
}

/* false: the event is refused. */
static bool find_labels(struct parsed_event *f, const struct source *source,
                        struct subject *subject)
{
    const char *why = NULL;
    bool found;

    found = profile_event_id(source, subject, &f->id, &why) == GR_OK &&
            profile_type(source, subject, &f->type, &why) == GR_OK &&
            profile_workspace(source, subject, &f->workspace, &why) == GR_OK;
    if (!found) {
        snprintf(f->why, sizeof f->why, "%s", why);
        f->refused = f->why;
    } else if (f->id.failed || f->type.len > LABEL_MAX_BYTES ||
               f->workspace.len > LABEL_MAX_BYTES) {
        f->refused = "its id, type or workspace is too long";
    }
    cut_label(&f->type);
    cut_label(&f->workspace);
    return !f->refused;
}

void parsed_event_make(struct parsed_event *f, const struct source *source,
                       struct subject *subject,
                       const struct parsed_signed *whole, size_t index)
{
    struct parsed_signed own;

    init(f);
    if (!find_labels(f, source, subject))
        return;
    if (!route_list_takes(&source->workspaces, f->workspace.data)) {
        f->refused = strcmp(f->workspace.data, "default") != 0
                         ? "its source may not send this workspace"
                         : "its source may not send workspace default; to "
                           "accept events without a workspace, add default to "
                           "the source's `workspaces`";
        return;
    }
    subject->id = f->id.len ? f->id.data : NULL;
    subject->type = f->type.data;
    subject->workspace = f->workspace.data;
    find_position(source, subject, f);
    find_transition(source, subject, f);
    if (f->refused)
        return;
    find_keys(source, subject, f);
    if (!whole)
        parsed_event_signed(&own, source, subject);
    find_signed(source, whole ? whole : &own, index, f);
}
