/* settings_sources: the section `sources` with its `dedupe`, `order` and `states`, and what a
 * provider's profile adds to it. */
#include "bounds.h"
#include "profile.h"
#include "settings_types.h"
#include "signed_part.h"
#include <stdlib.h>
#include <string.h>

/* ---- idempotency keys ---- */

/* A key without any of these has the same value for many events, and all but the first
 * would be duplicates. */
static bool tells_events_apart(const struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        if (key->parts[i].kind == EXPR_HEADER ||
            key->parts[i].kind == EXPR_JSON ||
            key->parts[i].kind == EXPR_FORM ||
            key->parts[i].kind == EXPR_QUERY || key->parts[i].kind == EXPR_ID ||
            key->parts[i].kind == EXPR_BODY_SHA256)
            return true;
    return false;
}

static void free_key(struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        expr_fini(&key->parts[i]);
    free(key->parts);
}

static void add_key(const struct conf_value *v, struct dedupe *d)
{
    size_t n = conf_count(v), good = 0;
    struct dedupe_key key = {.parts = gr_alloc(n * sizeof *key.parts)};

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        good += settings_read_expr(&item, &key.parts[key.count]);
        key.count += key.parts[key.count].kind != EXPR_NONE;
    }
    if (good == n && !tells_events_apart(&key)) {
        conf_error(v, "is the same for all events: a key needs a header:, "
                      "json:, form:, query:, id or body_sha256");
        good = n + 1;
    }
    if (good != n) {
        free_key(&key);
        return;
    }
    d->keys = gr_realloc(d->keys, (d->count + 1) * sizeof *d->keys);
    d->keys[d->count++] = key;
}

static void read_keys(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_key(&item, target);
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list (dedupe: none turns it off)");
    if (n > DEDUPE_KEYS_MAX)
        conf_error(v, "must be at most %d keys", DEDUPE_KEYS_MAX);
}

static void print_keys(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct dedupe *d = target;

    (void)k, (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < d->count; i++) {
        buf_puts(out, i ? ", [" : "[");
        for (size_t j = 0; j < d->keys[i].count; j++) {
            buf_puts(out, j ? ", " : "");
            settings_print_expr(out, &d->keys[i].parts[j]);
        }
        buf_puts(out, "]");
    }
    buf_puts(out, "]\n");
}

static void fini_keys(const struct conf_key *k, void *target)
{
    struct dedupe *d = target;

    (void)k;
    for (size_t i = 0; i < d->count; i++)
        free_key(&d->keys[i]);
    free(d->keys);
    d->keys = NULL;
    d->count = 0;
}

static void fini_dedupe(const struct conf_key *k, void *target)
{
    fini_keys(k, target);
    expr_fini(&((struct dedupe *)target)->unique);
}

static bool unset_keys(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct dedupe *)target)->count == 0;
}

static const struct conf_type conf_as_keys = {
    .name = "list of keys, each a list of field expressions",
    .read = read_keys,
    .print = print_keys,
    .unset = unset_keys,
    .fini = fini_keys,
};

static void read_dedupe(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct dedupe *d = target;

    d->none = conf_says(v, "none");
    if (d->none)
        return;
    if (!conf_is_map(v))
        conf_error(v, "must be none, or a map with keys and ttl");
    else
        conf_read_section(v, k->section, target);
}

static void print_dedupe(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    if (((const struct dedupe *)target)->none)
        buf_puts(out, " none\n");
    else
        conf_as_map.print(out, k, target, indent);
}

const struct conf_type conf_as_dedupe = {
    .name = "`none`, or a section",
    .read = read_dedupe,
    .print = print_dedupe,
    .fini = fini_dedupe,
};

/* ---- order and states ---- */

static const char *const by_words[] = {[ORDER_ARRIVAL] = "arrival",
                                       [ORDER_SEQUENCE] = "sequence",
                                       [ORDER_TIMESTAMP] = "timestamp",
                                       NULL};
static const char *const per_words[] = {"workspace", "type", NULL};
static const char *const invalid_words[] = {"ignore", "dead_letter", NULL};
static const char *const missing_words[] = {"refuse", "arrival", NULL};

/* A word, or a number that YAML may take for one. */
static void read_start(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    char *text = conf_scalar(v, "first or 1");

    (void)k;
    if (text && strcmp(text, "first") != 0 && strcmp(text, "1") != 0)
        conf_error(v, "\"%.60s\" is not one of: first, 1", text);
    *(bool *)target = text && strcmp(text, "first") == 0;
    free(text);
}

static void print_start(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, *(const bool *)target ? " first\n" : " 1\n");
}

static const struct conf_type conf_as_start = {
    .name = "word", .read = read_start, .print = print_start};

static void check_order(const struct conf_value *v, void *target)
{
    struct order *o = target;

    if (o->by == ORDER_SEQUENCE && !conf_has(v, "sequence"))
        conf_error_key(
            v, "sequence",
            "is missing: by: sequence needs the field with an event's number");
    if (o->by == ORDER_TIMESTAMP && !conf_has(v, "timestamp"))
        conf_error_key(
            v, "timestamp",
            "is missing: by: timestamp needs the field with an event's time");
    if (!o->backfill && o->signing_secrets.count)
        conf_error_key(
            v, "signing_secrets",
            "has no effect without backfill: set backfill, or remove this key");
    if (!o->backfill && (o->allow_private.all || o->allow_private.count))
        conf_error_key(
            v, "allow_private",
            "has no effect without backfill: set backfill, or remove this key");
    /* Settings that the kind of order does not use stay 0. */
    if (o->by == ORDER_SEQUENCE && !o->give_up_after_ms)
        o->give_up_after_ms = 30 * SECOND_MS;
    if (o->by == ORDER_TIMESTAMP && !o->window_ms)
        o->window_ms = 2 * SECOND_MS;
    if (o->by != ORDER_ARRIVAL && !o->buffer)
        o->buffer = 1000;
}

static const struct conf_key order_keys[] = {
    KEY(choice, order, by, "by", "arrival",
        "`arrival`: as events arrive; `sequence`: by the provider's numbers; "
        "`timestamp`: by a time, when the provider has no numbers",
        .choices = by_words),
    KEY(expr, order, sequence, "sequence", NULL,
        "where the provider's number is", .with = 1 << ORDER_SEQUENCE),
    KEY(either, order, per_type, "sequence_per", "workspace",
        "whether the provider numbers events per workspace or per type",
        .choices = per_words),
    KEY(start, order, start_first, "start", "first",
        "the first number of a stream: the first number seen, or 1",
        .form = "`first`, `1`"),
    KEY(int, order, tolerance_gap, "tolerance_gap", "0",
        "gaps of up to this many numbers are recorded but do not delay later "
        "events",
        .min = 0, .max = 1000000),
    KEY(int, order, buffer, "buffer", NULL,
        "the maximum number of events buffered in one stream (default 1000); "
        "above it, Grapnel stops waiting for the oldest gap",
        .min = 1, .max = 1000000,
        .with = 1 << ORDER_SEQUENCE | 1 << ORDER_TIMESTAMP),
    KEY(duration, order, give_up_after_ms, "give_up_after", NULL,
        "how long to wait for a missing number (default 30s); time in which "
        "ingress could not receive it does not count",
        .min = 1, .max = 365 * DAY_MS, .with = 1 << ORDER_SEQUENCE),
    KEY(expr, order, timestamp, "timestamp", NULL,
        "where the event's time is: RFC 3339, or a number since 1970 "
        "(seconds, milliseconds or microseconds, recognised by its size)",
        .with = 1 << ORDER_TIMESTAMP),
    KEY(duration, order, window_ms, "window", NULL,
        "how long an event waits for earlier ones, for `by: timestamp` "
        "(default 2s)",
        .min = 1, .max = DAY_MS, .with = 1 << ORDER_TIMESTAMP),
    KEY(either, order, or_arrival, "missing", "refuse",
        "what happens to an event that has no such number or time: `refuse` "
        "makes it a dead letter, `arrival` delivers it as it arrives",
        .choices = missing_words),
    KEY(boolean, order, observe, "observe", "false",
        "deliver without waiting, and only record which events would have "
        "waited and which gaps there are"),
    KEY(string, order, backfill, "backfill", NULL,
        "a URL that gets a POST when a gap opens, so that your service can "
        "have the missing events sent again. A workspace or type such as `..` "
        "would change the path, so it gets no call, unless the placeholder is "
        "after the `?`",
        .check = wrong_url_template,
        .form = "URL with `{source}` `{workspace}` `{type}` `{from}` "
                "`{to}` `{gap}`",
        .with = 1 << ORDER_SEQUENCE),
    KEY(strings, order, signing_secrets, "signing_secrets", NULL,
        "the secrets (`whsec_…`) that sign the calls of `backfill`",
        .check = wrong_signing_secret, .flags = CONF_SECRET | CONF_FILLED,
        .form = "list of secrets"),
    KEY(allow_private, order, allow_private, "allow_private", "false",
        "whether the calls of `backfill` may connect to loopback and private "
        "addresses: all (`true`), none (`false`), or those in the listed "
        "networks"),
    {0},
};

const struct conf_section order_section = {
    .name = "order",
    .help = "The order in which a source's events are delivered. A stream is "
            "the events of one source and workspace; with `sequence_per: "
            "type`, of one source, workspace and type.",
    .kind = "by",
    .check = check_order,
    .keys = order_keys,
};

static const struct conf_key states_keys[] = {
    KEY(expr, state_rules, object, "object", NULL,
        "where the id of the object is, unique within a workspace",
        .flags = CONF_REQUIRED),
    KEY(expr, state_rules, state, "state", NULL,
        "where the new state of the object is", .flags = CONF_REQUIRED),
    KEY(strings, state_rules, initial, "initial", NULL,
        "the states in which an object may start", .check = wrong_line,
        .flags = CONF_REQUIRED | CONF_FILLED, .form = "list of states"),
    KEY(strings, state_rules, transitions, "moves", NULL,
        "the valid transitions", .check = wrong_transition,
        .flags = CONF_REQUIRED | CONF_FILLED, .form = "list of `from>to`"),
    KEY(strings, state_rules, types, "types", NULL,
        "the types of events that are transitions; others are delivered as "
        "they are. Default: all",
        .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(either, state_rules, or_arrival, "missing", "refuse",
        "what happens to an event without object or state: `refuse` makes it "
        "a dead letter, `arrival` delivers it",
        .choices = missing_words),
    KEY(either, state_rules, invalid_is_dead, "on_invalid", "ignore",
        "`dead_letter`: an invalid transition also becomes a dead letter "
        "(`invalid_transition`), which an operator can force",
        .choices = invalid_words),
    {0},
};

const struct conf_section states_section = {
    .name = "states",
    .help =
        "For events that change the state of an object (such as an order: "
        "`open`, then `paid`). Only valid transitions are delivered, in "
        "whatever order the events arrive; others are recorded as `ignored`. "
        "`states: suggested` takes the states of the provider's profile "
        "([PROVIDERS](PROVIDERS.md)).",
    .keys = states_keys,
};

/* ---- what the provider's profile suggests ---- */

/* true: it is the word, and there is no section to read. */
static bool is_suggested(const struct conf_value *v, const char *what)
{
    if (conf_says(v, "suggested"))
        return true;
    if (!conf_is_map(v))
        conf_error(v, "must be suggested, or a section with %s", what);
    return false;
}

static void read_order(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    struct order *o = target;

    o->suggested = is_suggested(v, "by");
    if (!o->suggested && conf_is_map(v))
        conf_read_section(v, k->section, target);
}

static void print_order(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    if (((const struct order *)target)->suggested)
        buf_puts(out, " suggested\n");
    else
        conf_as_map.print(out, k, target, indent);
}

static void fini_section(const struct conf_key *k, void *target)
{
    conf_fini(k->section, target);
}

const struct conf_type conf_as_order = {
    .name = "`suggested`, or a section",
    .read = read_order,
    .print = print_order,
    .fini = fini_section,
};

static void read_states(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct state_rules *r = target;

    r->suggested = is_suggested(v, "object");
    if (!r->suggested && conf_is_map(v))
        conf_read_section(v, k->section, target);
}

static void print_states(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    if (((const struct state_rules *)target)->suggested)
        buf_puts(out, " suggested\n");
    else
        conf_as_map.print(out, k, target, indent);
}

static bool unset_states(const struct conf_key *k, const void *target)
{
    return !((const struct state_rules *)target)->suggested &&
           conf_as_map.unset(k, target);
}

const struct conf_type conf_as_states = {
    .name = "section",
    .read = read_states,
    .print = print_states,
    .unset = unset_states,
    .fini = fini_section,
};

/* ---- a source ---- */

#define REPLAYS_MAX_MS (365 * DAY_MS)

static const struct conf_key dedupe_keys[] = {
    {.name = "keys",
     .type = &conf_as_keys, /* the struct itself */
     .help =
         "the idempotency keys, at most 15; default: those of the provider. "
         "The source is always part of a key"},
    KEY(duration, dedupe, ttl_ms, "ttl", NULL,
        "how long a key is remembered; default: that of the provider",
        .min = SECOND_MS, .max = LONG_MS),
    KEY(duration, dedupe, window_ms, "window", "0s",
        "also treat an event as a duplicate when the same source sends the "
        "same workspace, type and body under another key within this time (5m "
        "is usual; `0s`: off)",
        .min = 0, .max = LONG_MS),
    KEY(tolerance, dedupe, replays_ms, "replays", NULL,
        "for signatures without a time: how long, at least, a digest of the "
        "signed data is remembered. An event with a remembered digest and new "
        "keys is a duplicate with the reason `replayed`. Default: that of the "
        "provider; with `custom`: off",
        .min = HOUR_MS, .max = REPLAYS_MAX_MS),
    KEY(expr, dedupe, unique, "unique", NULL,
        "apply `replays` only to requests that contain one of these: an id or "
        "a time that no other event has. Default: that of the provider; with "
        "`custom`: all requests"),
    {0},
};

const struct conf_section settings_dedupe = {
    .name = "dedupe",
    .help = "How duplicates are recognised. An event is a duplicate when one "
            "of its keys was seen within `ttl`. A duplicate is stored, but not "
            "delivered.",
    .keys = dedupe_keys,
};

static bool key_has(const struct dedupe *d, enum expr_kind kind)
{
    for (size_t i = 0; i < d->count; i++)
        for (size_t j = 0; j < d->keys[i].count; j++)
            if (d->keys[i].parts[j].kind == kind)
                return true;
    return false;
}

static void unknown_provider(const struct conf_value *v, const char *name)
{
    struct conf_near near = {.text = name};
    struct buf all;
    char hint[100];

    buf_init(&all, 1024);
    for (size_t i = 0; profile_name(i); i++) {
        conf_near_try(&near, profile_name(i));
        buf_printf(&all, "%s%s", i ? ", " : "", profile_name(i));
    }
    conf_error_key(v, "provider", "\"%.60s\" is not one of: %s%s", name,
                   all.data, conf_near_hint(&near, hint));
    buf_fini(&all);
}

/* Reads what the file has, then lets the profile fill the rest. */
static void check_source(const struct conf_value *v, void *target)
{
    struct source *s = target;

    if (s->name && s->order.backfill &&
        strlen(s->name) + strlen(BACKFILL_PREFIX) > NAME_MAX_BYTES)
        conf_error_key(v, "order",
                       "backfill adds an endpoint named backfill:NAME, and the "
                       "name of this source is too long for that: shorten it");
    if (key_has(&s->dedupe, EXPR_ID) && !conf_has(v, "id"))
        conf_error_key(v, "dedupe",
                       "has a key that uses id, but this source has no id: set "
                       "id, or remove the key");
    if (!s->provider)
        return;
    s->profile = profile_find(s->provider);
    if (!s->profile) {
        unknown_provider(v, s->provider);
        return;
    }
    if (profile_is_custom(s->profile) && !conf_has(v, "verify"))
        conf_error_key(
            v, "verify",
            "is missing: with provider: custom, it describes the signature");
    if (!profile_is_custom(s->profile) && conf_has(v, "verify"))
        conf_error_key(v, "verify",
                       "is only for provider: custom; provider %s defines it",
                       s->provider);
    if (s->order.suggested && !profile_has_order(s->profile))
        conf_error_key(v, "order",
                       "suggested: the profile of provider %s suggests no "
                       "order, because its events have no time that orders "
                       "them; remove order, or write by: timestamp with "
                       "a field of your own",
                       s->provider);
    if (s->states.suggested && !profile_has_states(s->profile))
        conf_error_key(v, "states",
                       "suggested: the profile of provider %s suggests no "
                       "states; remove states, or write object, state, "
                       "initial and moves",
                       s->provider);
    profile_fill(s);
    if (!s->dedupe.none && s->dedupe.replays_ms > 0 && !signed_part_lasts(s))
        conf_error_key(v, "dedupe",
                       s->verify.scheme == SCHEME_SHARED_TOKEN
                           ? "has replays, but this provider does not sign "
                             "requests: remove replays"
                           : "has replays, but the signature covers a time, so "
                             "old requests are refused anyway: remove replays");
    settings_check_verify(v, s);
    settings_check_reconcile(v, s);
}

static const struct conf_key source_keys[] = {
    KEY(string, source, name, "name", NULL,
        "the name, also in the URL: `/in/<name>`", .check = wrong_name,
        .flags = CONF_REQUIRED, .form = "name"),
    KEY(string, source, provider, "provider", NULL,
        "the provider that sends the requests. Its profile defines signature, "
        "id, type, workspace and idempotency keys",
        .flags = CONF_REQUIRED,
        .form = "name of a provider (PROVIDERS.md), or `custom`"),
    KEY(verify, source, verify, "verify", NULL,
        "how requests are signed; only for `provider: custom`",
        .section = &settings_verify, .flags = CONF_OPTIONAL),
    KEY(strings, source, secrets, "secrets", NULL,
        "the provider's secrets or public keys; a request is accepted when "
        "one of them matches (for rotation)",
        .flags = CONF_REQUIRED | CONF_SECRET | CONF_FILLED,
        .form = "list of secrets"),
    KEY(duration, source, clock_skew_ms, "clock_skew", NULL,
        "how far a signed time may differ from this machine's clock, in both "
        "directions; default: that of the provider, usually `5m`",
        .min = SECOND_MS, .max = DAY_MS),
    KEY(url, source, public_url, "public_url", NULL,
        "the URL that the provider calls, without a query; for providers that "
        "sign it",
        .check = wrong_public_url),
    KEY(string, source, webhook_id, "webhook_id", NULL,
        "the webhook's id at the provider; for providers that sign it "
        "(PayPal)",
        .check = wrong_line),
    KEY(boolean, source, batch, "batch", NULL,
        "`true`: the body is a JSON list, and each element is one event"),
    KEY(expr, source, id, "id", NULL, "where the provider's event id is"),
    KEY(expr, source, delivery_id, "delivery_id", NULL,
        "where the provider's delivery id is. `trace` and `events --id` find "
        "the event by it, and `rejects --id` a refused request; it is not an "
        "idempotency key"),
    KEY(expr, source, type, "type", NULL,
        "where the event type is; `unknown` when it is missing"),
    KEY(expr, source, workspace, "workspace", NULL,
        "where the workspace is (a customer, a repository …); `default` when "
        "it is missing"),
    KEY(expr, source, mode, "mode", NULL,
        "where a request says whether it is live or a test, for the log: "
        "`true`, `live`, `production` or `1` means live; `false`, `test`, "
        "`sandbox` or `0` means test"),
    KEY(dedupe, source, dedupe, "dedupe", NULL,
        "how duplicates are recognised; `none`: not at all",
        .section = &settings_dedupe),
    KEY(strings, source, workspaces, "workspaces", NULL,
        "the workspaces that this source may send; an event of another "
        "workspace becomes a dead letter. An event without a workspace "
        "belongs to `default`, so list `default` too. Default: all",
        .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(rate, source, rate_limit, "rate_limit", NULL,
        "how many correctly signed requests each ingress process accepts, "
        "with bursts of up to this many; the others get 429"),
    KEY(order, source, order, "order", NULL,
        "the order in which events are delivered; `suggested`: by the time "
        "that the provider's profile names ([PROVIDERS](PROVIDERS.md))",
        .section = &order_section),
    KEY(states, source, states, "states", NULL,
        "for events that change an object's state: which changes are valid",
        .section = &states_section, .flags = CONF_OPTIONAL),
    KEY(map, source, reconcile, "reconcile", NULL,
        "compares what has arrived with the provider's own list, and takes in "
        "what never arrived",
        .section = &settings_reconcile, .flags = CONF_OPTIONAL),
    {0},
};

const struct conf_section settings_source_section = {
    .name = "source",
    .help =
        "A sender of webhooks: a provider, which sends to `POST /in/<name>`.",
    .size = sizeof(struct source),
    .check = check_source,
    .keys = source_keys,
    .known =
        (const struct conf_known[]){
            {"secret", "unknown key (did you mean secrets?)"},
            {0},
        },
};
