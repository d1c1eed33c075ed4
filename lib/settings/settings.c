/* settings: looks up sources, producers and endpoints by name. */
#include "settings.h"
#include "sha256.h"
#include "ulid.h"
#include <jansson.h>
#include <openssl/crypto.h>
#include <string.h>

const struct source *settings_source(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].name && strcmp(s->sources[i].name, name) == 0)
            return &s->sources[i];
    return NULL;
}

const struct producer *settings_producer(const struct settings *s,
                                         const char *name)
{
    for (size_t i = 0; i < s->producer_count; i++)
        if (s->producers[i].name && strcmp(s->producers[i].name, name) == 0)
            return &s->producers[i];
    for (size_t i = 0; i < s->relay_count; i++)
        if (s->relays[i].name && strcmp(s->relays[i].name, name) == 0)
            return &s->relays[i].producer;
    return NULL;
}

enum relay_kind relay_kind(const struct relay *r)
{
    return strncmp(r->database, "sqlite:", 7) == 0 ? RELAY_SQLITE
           : strncmp(r->database, "mysql:", 6) == 0 ||
                   strncmp(r->database, "mariadb:", 8) == 0
               ? RELAY_MARIADB
               : RELAY_POSTGRES;
}

const struct relay *settings_relay(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < s->relay_count; i++)
        if (s->relays[i].name && strcmp(s->relays[i].name, name) == 0)
            return &s->relays[i];
    return NULL;
}

bool endpoint_id_valid(const char *name)
{
    size_t n = strlen(MANAGED_ID_PREFIX);

    return strncmp(name, MANAGED_ID_PREFIX, n) == 0 &&
           strlen(name) == n + ULID_BYTES && ulid_valid(name + n);
}

const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (strcmp(s->endpoints[i].name, name) == 0)
            return &s->endpoints[i];
    for (size_t i = 0; i < s->backfill_count; i++)
        if (strcmp(s->backfills[i].name, name) == 0)
            return &s->backfills[i];
    return NULL;
}

static const char *const priority_names[PRIORITIES] = {
    [PRIORITY_UNCHOSEN] = "normal",
    [PRIORITY_HIGH] = "high",
    [PRIORITY_NORMAL] = "normal",
    [PRIORITY_LOW] = "low"};

const char *priority_name(enum priority priority)
{
    return priority_names[priority];
}

enum priority priority_named(const char *name)
{
    int p = PRIORITY_HIGH;

    while (p < PRIORITIES && strcmp(priority_names[p], name) != 0)
        p++;
    return p < PRIORITIES ? (enum priority)p : PRIORITY_UNCHOSEN;
}

const struct retry_policy *settings_policy(const struct settings *s,
                                           const char *name)
{
    for (size_t i = 0; i < s->policy_count; i++)
        if (s->policies[i].name && strcmp(s->policies[i].name, name) == 0)
            return &s->policies[i];
    return NULL;
}

int64_t settings_timeout_ms(const struct endpoint_settings *endpoint,
                            const struct retry_policy *policy)
{
    return policy->attempt_ms ? policy->attempt_ms : endpoint->timeout_ms;
}

const struct producer *settings_token(const struct settings *s,
                                      struct bytes token)
{
    const struct producer *found = NULL;
    uint8_t given[TOKEN_HASH_BYTES];

    sha256(token, given);
    for (size_t i = 0; i < s->producer_count; i++)
        for (size_t j = 0; j < s->producers[i].tokens.count; j++)
            if (CRYPTO_memcmp(given, s->producers[i].token_hashes[j],
                              sizeof given) == 0)
                found = &s->producers[i];
    return found;
}

/* ---- verify ---- */

bool verify_unset(const struct verify *v)
{
    return !v->headers.count && v->signature.kind == EXPR_NONE;
}

static char *copy_text(const char *text)
{
    return text ? gr_strdup(text) : NULL;
}

void verify_copy(struct verify *to, const struct verify *from)
{
    *to = *from;
    to->headers = (struct string_list){0};
    for (size_t i = 0; i < from->headers.count; i++)
        string_list_add(&to->headers, from->headers.items[i]);
    expr_copy(&to->signature, &from->signature);
    to->form.prefix = copy_text(from->form.prefix);
    to->form.ts_key = copy_text(from->form.ts_key);
    to->form.sig_key = copy_text(from->form.sig_key);
    to->prefix = copy_text(from->prefix);
    to->signed_content = copy_text(from->signed_content);
    expr_copy(&to->time, &from->time);
    expr_copy(&to->id, &from->id);
    expr_copy(&to->token, &from->token);
    expr_copy(&to->body_digest, &from->body_digest);
}

/* ---- names ---- */

static void add_name(json_t *list, const char *name)
{
    if (name)
        json_array_append_new(list, json_string(name));
}

json_t *settings_names(const struct settings *s)
{
    json_t *endpoints = json_array(), *sources = json_array(),
           *policies = json_array(), *alerts = json_array(),
           *notifiers = json_array();

    for (size_t i = 0; i < s->endpoint_count; i++)
        add_name(endpoints, s->endpoints[i].name);
    for (size_t i = 0; i < s->source_count; i++)
        add_name(sources, s->sources[i].name);
    for (size_t i = 0; i < s->producer_count; i++)
        add_name(sources, s->producers[i].name);
    for (size_t i = 0; i < s->relay_count; i++)
        add_name(sources, s->relays[i].name);
    for (size_t i = 0; i < s->policy_count; i++)
        add_name(policies, s->policies[i].name);
    for (size_t i = 0; i < s->alert_count; i++)
        add_name(alerts, s->alerts[i].name);
    for (size_t i = 0; i < s->notifier_count; i++)
        add_name(notifiers, s->notifiers[i].name);
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:s?}", "endpoints", endpoints,
                     "sources", sources, "policies", policies, "alerts", alerts,
                     "notifiers", notifiers, "metrics_interval_ms",
                     (json_int_t)s->metrics_interval_ms, "metrics_publish",
                     s->metrics_publish);
}
