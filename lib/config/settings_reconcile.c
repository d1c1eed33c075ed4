/* settings_reconcile: `reconcile` of a source: where its provider lists events, and how the list is
 * read. Profiles have the same section for their providers. */
#include "profile.h"
#include "settings_types.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const auth_words[] = {[LISTING_BEARER] = "bearer",
                                         [LISTING_BASIC] = "basic",
                                         [LISTING_PLAIN] = "plain",
                                         NULL};
static const char *const times_words[] = {[LISTING_S] = "s",
                                          [LISTING_MS] = "ms",
                                          [LISTING_RFC3339] = "rfc3339",
                                          NULL};
static const char *const paging_words[] = {
    [LISTING_ONE_PAGE] = "none", [LISTING_LAST_ID] = "last_id",
    [LISTING_LINK] = "link",     [LISTING_OFFSET] = "offset",
    [LISTING_CURSOR] = "cursor", NULL};

static bool is_loopback(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t n = strlen(names[i]);

        if (strncasecmp(host, names[i], n) == 0 && strchr(":/?", host[n]))
            return true;
    }
    return false;
}

/* A template of two placeholders: a URL without them, https or on this machine. */
static const char *wrong_template_of(const char *text, const char *one,
                                     const char *other, const char *sentence)
{
    char *plain = gr_strdup(text), *brace, *host = strstr(plain, "://");
    const char *wrong = NULL,
               *path = host ? host + 3 + strcspn(host + 3, "/?") : plain;

    while (!wrong && (brace = strchr(plain, '{')) != NULL) {
        size_t n = strncmp(brace, one, strlen(one)) == 0       ? strlen(one)
                   : strncmp(brace, other, strlen(other)) == 0 ? strlen(other)
                                                               : 0;

        if (!n)
            wrong = sentence;
        else if (brace < path)
            wrong = "must not have braces in the host";
        else
            memset(brace, 'x', n);
    }
    if (!wrong)
        wrong = wrong_url(plain);
    if (!wrong && strncasecmp(text, "http://", 7) == 0 &&
        !is_loopback(text + 7))
        wrong = "must begin with https://, because credentials are sent there; "
                "http:// is for loopback addresses";
    free(plain);
    return wrong;
}

static const char *wrong_list_url(const char *text)
{
    return wrong_template_of(text, "{from}", "{to}",
                             "may contain {from} and {to}, and no other "
                             "braces");
}

static const char *wrong_event_url(const char *text)
{
    static const char list[] = "{list}";

    if (strncmp(text, list, sizeof list - 1) != 0)
        return "must begin with {list}, which is the URL of the list without "
               "its query";
    for (const char *p = text + sizeof list - 1; *p; p++)
        if (*p == '{' && strncmp(p, "{key}", 5) != 0)
            return "may contain {list} and {key}, and no other braces";
    return NULL;
}

static const struct conf_key listing_keys[] = {
    KEY(string, provider_list, url, "url", NULL,
        "the URL of the list, with `{from}` and `{to}` where the time of the "
        "oldest and of the newest event are",
        .check = wrong_list_url, .form = "URL with `{from}` `{to}`"),
    KEY(choice, provider_list, times, "times", "s",
        "the form of `{from}` and `{to}`: seconds or milliseconds since 1970, "
        "or RFC 3339",
        .choices = times_words),
    KEY(choice, provider_list, auth, "auth", "bearer",
        "how the token is sent: `Authorization: Bearer TOKEN`; `basic`, with "
        "the token as the user and no password; `plain`, as the whole value of "
        "the header",
        .choices = auth_words),
    KEY(string, provider_list, auth_header, "auth_header", NULL,
        "the header that has the token (default `Authorization`)",
        .check = wrong_header_token, .form = "name of a header"),
    KEY(expr, provider_list, events, "events", NULL,
        "where the page has the list of events; default: the page is the list"),
    KEY(expr, provider_list, id, "id", NULL,
        "where an item of the list has the id of the event; default: the "
        "source's `id`"),
    KEY(expr, provider_list, time, "time", NULL,
        "where an item has the time of the event: RFC 3339, or a number since "
        "1970 (seconds, milliseconds or microseconds)",
        .flags = CONF_REQUIRED),
    KEY(choice, provider_list, paging, "paging", "none",
        "how the next page is found: `last_id`: `parameter` gets the id of the "
        "last item; `link`: the header `Link` with `rel=\"next\"`; `offset`: "
        "`parameter` gets the number of items so far; `cursor`: `parameter` "
        "gets the text at `cursor`. A page without items is the last one",
        .choices = paging_words),
    KEY(string, provider_list, parameter, "parameter", NULL,
        "the name of the query parameter that asks for the next page",
        .check = wrong_line, .form = "name"),
    KEY(expr, provider_list, cursor, "cursor", NULL,
        "where a page has the text that asks for the next one; the last page "
        "has none"),
    KEY(expr, provider_list, more, "more", NULL,
        "where a page says that there are more: the last one has not `true` "
        "there"),
    KEY(string, provider_list, event_url, "event_url", NULL,
        "the URL of one event, for lists whose items are not the events "
        "themselves: `{list}` is the URL of the list without its query, "
        "`{key}` the value at `key`",
        .check = wrong_event_url, .form = "URL with `{list}` `{key}`"),
    KEY(expr, provider_list, key, "key", NULL, "where an item has `{key}`"),
    KEY(expr, provider_list, headers, "headers", NULL,
        "where the event has the headers of its request, as an object"),
    KEY(expr, provider_list, body, "body", NULL,
        "where the event has the body of its request; default: it is the "
        "body"),
    KEY(string, provider_list, keeps, "keeps", NULL,
        "how long the provider lists an event; for people", .check = wrong_line,
        .form = "text"),
    {0},
};

const struct conf_section settings_listing = {
    .name = "list",
    .help = "How a provider lists its events. Of expressions, only `json:` "
            "is of use here.",
    .keys = listing_keys,
};

static const struct conf_key reconcile_keys[] = {
    KEY(duration, reconcile, every_ms, "every", "15m",
        "how often the list is read", .min = SECOND_MS, .max = 7 * DAY_MS),
    KEY(string, reconcile, url, "url", NULL,
        "the URL of the list, where the profile has none (GitHub: "
        "`https://api.github.com/repos/OWNER/REPO/hooks/ID/"
        "deliveries?per_page=100`), or in place of the profile's",
        .check = wrong_list_url, .form = "URL with `{from}` `{to}`"),
    KEY(path, reconcile, token_file, "token_file", NULL,
        "a file with the key of the provider's API; it is read for each run. "
        "The key needs no more than the right to read events",
        .flags = CONF_REQUIRED),
    KEY(duration, reconcile, grace_ms, "grace", "10m",
        "younger events are not missed yet: the provider may still be sending "
        "them",
        .min = 0, .max = DAY_MS),
    KEY(duration, reconcile, look_back_ms, "look_back", "1h",
        "how far a walk through the list begins before the end of the last "
        "one, for events that the provider lists late",
        .min = 0, .max = 30 * DAY_MS),
    KEY(duration, reconcile, pause_ms, "pause", "200ms",
        "the pause between two requests to the provider", .min = 0,
        .max = MINUTE_MS),
    KEY(duration, reconcile, timeout_ms, "timeout", "30s",
        "the time limit of one request", .min = SECOND_MS,
        .max = 5 * MINUTE_MS),
    KEY(map, reconcile, list, "list", NULL,
        "how the list is read; default: as the provider's profile says",
        .section = &settings_listing, .flags = CONF_OPTIONAL),
    {0},
};

const struct conf_section settings_reconcile = {
    .name = "reconcile",
    .help = "`grapnel-reconcile` reads the list of events that the provider "
            "keeps. Events that never arrived become gaps with the status "
            "`reconciled`, and are taken in like any other. It runs if a "
            "source has this section.",
    .keys = reconcile_keys,
};

/* A key that has the same value for the original and for what was fetched, whose other parts may differ. */
static bool is_id_key(const struct dedupe_key *key)
{
    bool has_id = false;

    for (size_t k = 0; k < key->count; k++) {
        const struct expr *part = &key->parts[k];

        if (part->other ||
            (part->kind != EXPR_ID && part->kind != EXPR_SOURCE &&
             part->kind != EXPR_PROVIDER && part->kind != EXPR_CONST))
            return false;
        has_id = has_id || part->kind == EXPR_ID;
    }
    return has_id;
}

static bool has_id_key(const struct dedupe *d)
{
    for (size_t i = 0; !d->none && i < d->count; i++)
        if (is_id_key(&d->keys[i]))
            return true;
    return false;
}

/* The event is fetched without its request: without a query and a form, and without headers if the list has
 * none. What is found there would be missing, and a workspace would be another one. */
static void check_expr(const struct conf_value *v, const char *key,
                       const struct expr *e, const struct provider_list *l)
{
    for (; e && e->kind != EXPR_NONE; e = e->other) {
        if (e->kind == EXPR_QUERY || e->kind == EXPR_FORM)
            conf_error_key(v, "reconcile",
                           "%s of this source is read from %s:, which events "
                           "in a list do not have: read it from json: or "
                           "header:, or remove reconcile",
                           key, e->kind == EXPR_QUERY ? "query" : "form");
        else if (e->kind == EXPR_HEADER && l->headers.kind == EXPR_NONE)
            conf_error_key(v, "reconcile",
                           "list.headers is missing: %s of this source is read "
                           "from the header %.100s",
                           key, e->text);
        else
            continue;
        return;
    }
}

static void check_exprs(const struct conf_value *v, const struct source *s,
                        const struct provider_list *l)
{
    check_expr(v, "workspace", &s->workspace, l);
    check_expr(v, "id", &s->id, l);
    check_expr(v, "type", &s->type, l);
    check_expr(v, "order", &s->order.sequence, l);
    check_expr(v, "order", &s->order.timestamp, l);
    for (size_t i = 0; !s->dedupe.none && i < s->dedupe.count; i++)
        for (size_t k = 0; k < s->dedupe.keys[i].count; k++)
            check_expr(v, "dedupe", &s->dedupe.keys[i].parts[k], l);
}

static void check_list(const struct conf_value *v,
                       const struct provider_list *l)
{
    bool asks = l->paging == LISTING_LAST_ID || l->paging == LISTING_OFFSET ||
                l->paging == LISTING_CURSOR;

    if (asks && !l->parameter)
        conf_error_key(v, "reconcile",
                       "list.parameter is missing: paging: %s needs the name "
                       "of the parameter that asks for the next page",
                       paging_words[l->paging]);
    if (l->paging == LISTING_CURSOR && l->cursor.kind == EXPR_NONE)
        conf_error_key(v, "reconcile",
                       "list.cursor is missing: paging: cursor needs the place "
                       "of the text that asks for the next page");
    if (l->event_url && l->key.kind == EXPR_NONE)
        conf_error_key(v, "reconcile",
                       "list.key is missing: event_url needs the place of "
                       "{key} in an item");
}

void settings_check_reconcile(const struct conf_value *v,
                              const struct source *s)
{
    const struct provider_list *list = source_listing(s);

    if (!s->reconcile.every_ms)
        return;
    if (!list) {
        conf_error_key(v, "reconcile",
                       "the profile of %s does not say how its provider lists "
                       "events: describe it in `list`, or remove reconcile",
                       s->provider);
        return;
    }
    if (!source_listing_url(s))
        conf_error_key(v, "reconcile",
                       "url is missing: it names the list of this webhook's "
                       "deliveries");
    if (!has_id_key(&s->dedupe))
        conf_error_key(v, "reconcile",
                       "needs a key of dedupe that contains id, and besides "
                       "it only source, provider or const: without it, an "
                       "event that arrives late would be delivered twice");
    if (list->id.kind == EXPR_NONE && s->id.kind == EXPR_NONE)
        conf_error_key(v, "reconcile",
                       "list.id is missing: the source has no id either");
    check_list(v, list);
    check_exprs(v, s, list);
}
