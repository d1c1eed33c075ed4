/* Sources: what is said of one, and what its provider's profile adds. */
#include "bounds.h"
#include "profile.h"
#include "settings_types.h"
#include "settings_verify.h"
#include "signed_part.h"
#include <string.h>

#define REPLAYS_MAX_MS (365 * DAY_MS)

const struct conf_section settings_dedupe = {
    .name = "dedupe",
    .help = "An event is a repeat when any one of the keys was seen within "
            "ttl.",
    .keys =
        (const struct conf_key[]){
            {.name = "keys",
             .type = &settings_as_keys,
             .offset = 0,
             .help = "at most 15; absent: the profile's. The source is part of "
                     "each key, whether it names it or not"},
            {.name = "ttl",
             .type = &conf_as_duration,
             AT(dedupe, ttl_ms),
             .min = SECOND_MS,
             .max = LONG_MS,
             .help = "absent: the profile's"},
            {.name = "window",
             .type = &conf_as_duration,
             AT(dedupe, window_ms),
             .fallback = "0s",
             .min = 0,
             .max = LONG_MS,
             .help = "also a repeat: the same source, workspace, type and body "
                     "within this time under another key (5m is usual; 0s: "
                     "off)"},
            {.name = "replays",
             .type = &settings_as_tolerance,
             AT(dedupe, replays_ms),
             .min = HOUR_MS,
             .max = REPLAYS_MAX_MS,
             .help = "for schemes that sign no time: how long a digest of what "
                     "is signed is kept at least. An event that no key, but "
                     "this digest, shows to be sent again is a duplicate with "
                     "the reason `replayed`. Absent: the profile's; with "
                     "`custom`: none"},
            {.name = "unique",
             .type = &settings_as_expr,
             AT(dedupe, unique),
             .help = "`replays` is only for requests that have this: an id or "
                     "a time that no other event has. Absent: the profile's; "
                     "with `custom`: all requests"},
            {0},
        },
};

/* What the file says of replays has to have a meaning with this scheme. */
static void check_replays(const struct conf_value *v, const struct source *s)
{
    const struct dedupe *d = &s->dedupe;

    if (!d->none && d->replays_ms > 0 && !signed_part_lasts(s))
        conf_error_key(v, "dedupe",
                       s->verify.scheme == SCHEME_SHARED_TOKEN
                           ? "has replays, but nothing of a request is signed"
                           : "has replays, but a time is signed: an old "
                             "request is refused already");
}

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
    conf_error_key(v, "provider", "\"%.60s\" is none of: %s%s", name, all.data,
                   conf_near_hint(&near, hint));
    buf_fini(&all);
}

static void check_own_verify(const struct conf_value *v, const struct source *s)
{
    bool has = conf_has(v, "verify");

    if (profile_is_custom(s->profile) && !has)
        conf_error_key(v, "verify",
                       "is missing: provider custom says all of it");
    if (!profile_is_custom(s->profile) && has)
        conf_error_key(v, "verify", "is for provider: custom; %s brings it",
                       s->provider);
}

/* Reads what the file said, then lets the profile fill the rest. */
static void check_source(const struct conf_value *v, void *target)
{
    struct source *s = target;

    if (s->name && s->order.backfill &&
        strlen(s->name) + strlen(BACKFILL_PREFIX) > NAME_MAX_BYTES)
        conf_error_key(v, "order",
                       "backfill makes an endpoint backfill:NAME: the source's "
                       "name is too long for that");
    if (key_has(&s->dedupe, EXPR_ID) && !conf_has(v, "id"))
        conf_error_key(v, "dedupe", "has a key made of id, but there is no id");
    if (!s->provider)
        return;
    s->profile = profile_find(s->provider);
    if (!s->profile) {
        unknown_provider(v, s->provider);
        return;
    }
    check_own_verify(v, s);
    profile_fill(s);
    check_replays(v, s);
    settings_check_verify(v, s);
}

const struct conf_section settings_source_section = {
    .name = "source",
    .help = "`POST /in/<name>`: where webhooks come from.",
    .size = sizeof(struct source),
    .check = check_source,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(source, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name, and its path"},
            {.name = "provider",
             .type = &conf_as_text,
             AT(source, provider),
             .flags = CONF_REQUIRED,
             .form = "name of a provider (PROVIDERS.md), or `custom`",
             .help = "what brings signature, id, type, workspace and "
                     "idempotency keys"},
            {.name = "verify",
             .type = &settings_as_verify,
             AT(source, verify),
             .section = &settings_verify,
             .flags = CONF_OPTIONAL,
             .help = "the signature; for `provider: custom`"},
            {.name = "secrets",
             .type = &conf_as_texts,
             AT(source, secrets),
             .flags = CONF_REQUIRED | CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "any of them may match (rotation)"},
            {.name = "clock_skew",
             .type = &conf_as_duration,
             AT(source, clock_skew_ms),
             .min = SECOND_MS,
             .max = DAY_MS,
             .help = "how far a signed time may be off, both ways; absent: as "
                     "the profile says, mostly `5m`"},
            {.name = "public_url",
             .type = &settings_as_url,
             AT(source, public_url),
             .check = wrong_public_url,
             .help = "the URL as the provider knows it, without a query; for "
                     "those that sign it"},
            {.name = "webhook_id",
             .type = &conf_as_text,
             AT(source, webhook_id),
             .check = wrong_line,
             .help = "the webhook's id at the provider, for those that sign it "
                     "(PayPal)"},
            {.name = "batch",
             .type = &conf_as_bool,
             AT(source, batch),
             .help = "the body is a JSON list, and each element an event"},
            {.name = "id",
             .type = &settings_as_expr,
             AT(source, id),
             .help = "the provider's id of the event"},
            {.name = "delivery_id",
             .type = &settings_as_expr,
             AT(source, delivery_id),
             .help =
                 "the provider's id of this delivery, by which `trace` and "
                 "`events --id` find the event, and `rejects --id` what was "
                 "refused; it is not a key"},
            {.name = "type",
             .type = &settings_as_expr,
             AT(source, type),
             .help = "what happened; `unknown` where there is none"},
            {.name = "workspace",
             .type = &settings_as_expr,
             AT(source, workspace),
             .help = "whose it is; `default` where there is none"},
            {.name = "mode",
             .type = &settings_as_expr,
             AT(source, mode),
             .help = "whether it is a live or a test event, for the log: "
                     "`true`, `live`, `production` or `1` is live, `false`, "
                     "`test`, `sandbox` or `0` is test"},
            {.name = "dedupe",
             .type = &settings_as_dedupe,
             AT(source, dedupe),
             .section = &settings_dedupe,
             .help = "how repeats are known"},
            {.name = "workspaces",
             .type = &conf_as_texts,
             AT(source, workspaces),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "those it may name; an event of another is kept and "
                     "refused, a dead letter. An event that names none is "
                     "in `default`, which must be in the list too. All when "
                     "absent"},
            {.name = "rate_limit",
             .type = &settings_as_rate,
             AT(source, rate_limit),
             .help = "how many genuine requests each ingress takes, in bursts "
                     "of that many at most; the rest is answered with 429"},
            {.name = "order",
             .type = &conf_as_map,
             AT(source, order),
             .section = &settings_order_section,
             .help = "in which order its events are let go"},
            {.name = "states",
             .type = &conf_as_map,
             AT(source, states),
             .section = &settings_states_section,
             .flags = CONF_OPTIONAL,
             .help = "its events are moves of an object's state"},
            {0},
        },
    .known =
        (const struct conf_known[]){
            {"secret", "unknown key (did you mean secrets?)"},
            {0},
        },
};
