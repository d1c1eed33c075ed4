/* page: finds the events in a page of a provider's list, and where the next page is. */
#include "page.h"
#include "bounds.h"
#include "clock.h"
#include "encoding.h"
#include "headers.h"
#include "json_scan.h"
#include "json_text.h"
#include "profile.h"
#include "split.h"
#include "wire.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- places in a JSON text ---- */

static bool is_json(struct bytes text)
{
    struct bytes whole;
    size_t read_bytes = 0;
    json_t *doc;
    bool good;

    if (json_scan(text, "", &whole, &read_bytes) == JSON_SCAN_FOUND)
        return true;
    doc = json_read(
        text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    good = doc != NULL;
    json_decref(doc);
    return good;
}

/* The member of an object in a valid text; escapes in names are not decoded. */
static bool member(struct bytes *at, const char *name, size_t n)
{
    const char *p = json_skip_blanks(at->p);
    bool found = false;

    if (*p != '{')
        return false;
    for (p = json_skip_blanks(p + 1); *p == '"';) {
        const char *key = p + 1;
        size_t key_n = (size_t)(json_skip_string(p) - p) - 2;
        struct bytes value;

        p = json_skip_blanks(json_skip_string(p)) + 1; /* the colon */
        p = json_skip_value(json_skip_blanks(p), &value);
        if (key_n == n && memcmp(key, name, n) == 0) {
            *at = value;
            found = true;
        }
        if (*p == ',')
            p = json_skip_blanks(p + 1);
    }
    return found;
}

/* What an expression names in a valid text, as it is written there. */
static bool find(struct bytes text, const struct expr *e, struct bytes *value)
{
    for (; e && e->kind == EXPR_JSON; e = e->other) {
        const char *p = e->text;
        bool found = true;

        *value = text;
        while (found && *p == '/') {
            size_t n = strcspn(p + 1, "/");

            found = member(value, p + 1, n);
            p += 1 + n;
        }
        if (found)
            return true;
    }
    return false;
}

/* Its text, the caller's; NULL: there is none, and *why says so. */
static char *value_or_why(const struct source *source, const struct expr *e,
                          struct bytes text, const char **why)
{
    struct subject s = {
        .source = source->name, .provider = source->provider, .body = text};
    struct buf out;
    char *value = NULL;

    buf_init(&out, TEXT_MAX_BYTES);
    if (expr_value(e, &s, &out, why) == GR_OK)
        value = buf_take(&out);
    buf_fini(&out);
    subject_fini(&s);
    return value;
}

static char *value_of(const struct source *source, const struct expr *e,
                      struct bytes text)
{
    const char *why;

    return value_or_why(source, e, text, &why);
}

/* ---- items ---- */

/* RFC 3339, or a number since 1970; its size says in which unit. */
static bool time_of(const char *text, int64_t *ms)
{
    int64_t us;
    char *end;
    double n = strtod(text, &end);

    if (rfc3339_parse(text, strlen(text), RFC3339_FULL, &us)) {
        *ms = us / 1000;
        return us > 0;
    }
    if (end == text || *end || !(n > 0) || n > 1e17)
        return false;
    *ms = (int64_t)(n < 1e11 ? n * 1000 : n < 1e14 ? n : n / 1000);
    return true;
}

static bool is_id(const char *id)
{
    size_t n = strlen(id);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)id[i] < ' ' || id[i] == 127)
            return false;
    return n && n <= PROVIDER_ID_MAX_BYTES && utf8_valid((struct bytes){id, n});
}

static void read_item(struct page *p, const struct source *source,
                      struct bytes text)
{
    const struct provider_list *list = source_listing(source);
    const struct expr *id_at = list->id.kind == EXPR_NONE ? &source->id
                                                          : &list->id;
    char *id = value_of(source, id_at, text);
    char *time = value_of(source, &list->time, text);
    struct listed *item = &p->items[p->count];

    *item = (struct listed){.text = text, .id = id};
    if (id && is_id(id) && time && time_of(time, &item->ms)) {
        p->count++;
    } else {
        p->unusable++;
        free(id);
    }
    free(time);
}

static gr_rc read_items(struct page *p, const struct source *source,
                        struct bytes body, char why[PAGE_WHY_BYTES])
{
    const struct provider_list *list = source_listing(source);
    struct bytes items = body;
    const char *wrong = NULL, *begin;
    struct split parts;

    if (!is_json(body)) {
        snprintf(why, PAGE_WHY_BYTES, "the page is not JSON");
        return GR_REFUSE;
    }
    if (list->events.kind != EXPR_NONE && !find(body, &list->events, &items)) {
        snprintf(why, PAGE_WHY_BYTES, "the page has nothing at %s",
                 list->events.text);
        return GR_REFUSE;
    }
    begin = json_skip_blanks(items.p);
    if (*begin != '[') {
        snprintf(why, PAGE_WHY_BYTES, "the page has no list of events");
        return GR_REFUSE;
    }
    if (*json_skip_blanks(begin + 1) == ']')
        return GR_OK;
    if (split_body(items, &parts, &wrong) != GR_OK) {
        snprintf(why, PAGE_WHY_BYTES, "the list of events: %s", wrong);
        split_fini(&parts);
        return GR_REFUSE;
    }
    p->items = gr_alloc(parts.count * sizeof *p->items);
    for (size_t i = 0; i < parts.count; i++)
        read_item(p, source, parts.parts[i]);
    split_fini(&parts);
    return GR_OK;
}

/* ---- the next page ---- */

/* Scheme, host and port of a URL. */
static size_t origin_bytes(const char *url)
{
    const char *host = strstr(url, "://");

    return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

/* The URL with rel="next" in a header Link, the caller's. */
static char *linked(const char *link)
{
    const char *p = link;

    while ((p = strchr(p, '<')) != NULL) {
        const char *end = strchr(p, '>');
        size_t n;

        if (!end)
            break;
        n = strcspn(end, ",");
        for (const char *rel = end; rel < end + n; rel++)
            if (strncasecmp(rel, "rel=\"next\"", 10) == 0 ||
                strncasecmp(rel, "rel=next", 8) == 0)
                return gr_strndup(p + 1, (size_t)(end - p - 1));
        p = end + n;
    }
    return NULL;
}

/* Its text, the caller's; NULL: there is none. GR_REFUSE: it cannot be read, so it is not the end either. */
static gr_rc read_text(const struct source *source, const struct expr *e,
                       struct bytes body, const char *key, char **text,
                       char why[PAGE_WHY_BYTES])
{
    const char *wrong = "";

    *text = value_or_why(source, e, body, &wrong);
    if (*text || wrong == expr_not_there)
        return GR_OK;
    snprintf(why, PAGE_WHY_BYTES, "the page at list.%s: %.200s", key, wrong);
    return GR_REFUSE;
}

static gr_rc find_next(struct page *p, const struct source *source,
                       struct bytes body, const char *position,
                       const char *link, const char *url,
                       char why[PAGE_WHY_BYTES])
{
    const struct provider_list *list = source_listing(source);
    size_t total = p->count + p->unusable, n;
    bool more = false;
    char *text;

    if (list->more.kind != EXPR_NONE) {
        if (read_text(source, &list->more, body, "more", &text, why) != GR_OK)
            return GR_REFUSE;
        more = text && strcmp(text, "true") == 0;
        free(text);
        if (!more)
            return GR_OK;
    }
    switch (list->paging) {
    case LISTING_LAST_ID:
        if (p->count) {
            p->next = gr_strdup(p->items[p->count - 1].id);
        } else if (more || total) {
            snprintf(why, PAGE_WHY_BYTES,
                     "the page has no usable event, so the next one cannot be "
                     "asked for");
            return GR_REFUSE;
        }
        break;
    case LISTING_OFFSET:
        if (total)
            p->next = gr_printf("%lld",
                                strtoll(position, NULL, 10) + (long long)total);
        break;
    case LISTING_CURSOR:
        if (read_text(source, &list->cursor, body, "cursor", &p->next, why) !=
            GR_OK)
            return GR_REFUSE;
        if (p->next && ((!total && !more) || strcmp(p->next, "false") == 0)) {
            free(p->next);
            p->next = NULL;
        }
        break;
    case LISTING_LINK:
        p->next = linked(link);
        n = origin_bytes(url);
        if (p->next &&
            (strncmp(p->next, url, n) != 0 || !strchr("/?", p->next[n]))) {
            snprintf(why, PAGE_WHY_BYTES,
                     "the next page is on another host: %.100s", p->next);
            return GR_REFUSE;
        }
        break;
    default:
        break;
    }
    if (p->next && strcmp(p->next, position) == 0) {
        snprintf(why, PAGE_WHY_BYTES,
                 "the list does not end: a page names itself as the next one");
        return GR_REFUSE;
    }
    return GR_OK;
}

gr_rc page_read(struct page *p, const struct source *source, struct bytes body,
                const char *position, const char *link, const char *url,
                char why[PAGE_WHY_BYTES])
{
    *p = (struct page){0};
    if (read_items(p, source, body, why) != GR_OK)
        return GR_REFUSE;
    return find_next(p, source, body, position, link, url, why);
}

void page_fini(struct page *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i].id);
    free(p->items);
    free(p->next);
    *p = (struct page){0};
}

/* ---- requests ---- */

static void put_time(struct buf *out, int times, int64_t ms)
{
    char text[RFC3339_BYTES];

    if (times == LISTING_S) {
        buf_printf(out, "%lld", (long long)(ms / 1000));
    } else if (times == LISTING_MS) {
        buf_printf(out, "%lld", (long long)ms);
    } else {
        rfc3339(text, ms); /* without the fraction, which is 0 */
        buf_printf(out, "%.19sZ", text);
    }
}

static void put_escaped(struct buf *out, const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, (int)strlen(text));

    buf_puts(out, escaped ? escaped : "");
    curl_free(escaped);
}

char *page_url(const struct source *source, int64_t from_ms, int64_t to_ms,
               const char *position)
{
    const struct provider_list *list = source_listing(source);
    const char *url = source_listing_url(source);
    struct buf out;

    if (list->paging == LISTING_LINK && *position)
        return gr_strdup(position);
    buf_init(&out, URL_MAX_BYTES);
    for (const char *p = url; *p;) {
        size_t n = strcspn(p, "{");

        buf_put(&out, p, n);
        p += n;
        if (strncmp(p, "{from}", 6) == 0) {
            put_time(&out, list->times, from_ms);
            p += 6;
        } else if (*p) {
            put_time(&out, list->times, to_ms);
            p += 4;
        }
    }
    if (*position) {
        buf_puts(&out, strchr(url, '?') ? "&" : "?");
        put_escaped(&out, list->parameter);
        buf_puts(&out, "=");
        put_escaped(&out, position);
    }
    return out.failed ? gr_strdup("") : buf_take(&out);
}

char *page_event_url(const struct source *source, const struct listed *item)
{
    const struct provider_list *list = source_listing(source);
    const char *url = source_listing_url(source), *p;
    char *key, *made;
    struct buf out;

    if (!list->event_url) /* since a reload */
        return NULL;
    p = list->event_url + strlen("{list}");
    key = value_of(source, &list->key, item->text);
    if (!key)
        return NULL;
    buf_init(&out, URL_MAX_BYTES);
    buf_put(&out, url, strcspn(url, "?"));
    while (*p) {
        size_t n = strcspn(p, "{");

        buf_put(&out, p, n);
        p += n;
        if (*p) {
            put_escaped(&out, key);
            p += strlen("{key}");
        }
    }
    free(key);
    made = out.failed ? NULL : buf_take(&out);
    buf_fini(&out);
    return made;
}

char *page_credentials(const struct source *source, const char *token)
{
    const struct provider_list *list = source_listing(source);
    const char *name = list->auth_header ? list->auth_header : "Authorization";
    char *made, *basic;
    json_t *coded;

    if (list->auth == LISTING_PLAIN)
        return gr_printf("%s: %s", name, token);
    if (list->auth == LISTING_BEARER)
        return gr_printf("%s: Bearer %s", name, token);
    basic = gr_printf("%s:", token);
    coded = encoding_base64_json((struct bytes){basic, strlen(basic)});
    made = gr_printf("%s: Basic %s", name, json_string_value(coded));
    explicit_bzero(basic, strlen(basic));
    free(basic);
    json_decref(coded);
    return made;
}

/* ---- one event ---- */

/* Not the length and form of a body that is written anew here, and no secrets. */
static bool keeps_header(const char *name)
{
    static const char *const dropped[] = {"content-type", "content-length",
                                          "content-encoding",
                                          "transfer-encoding", "connection"};

    for (size_t i = 0; i < COUNT_OF(dropped); i++)
        if (strcasecmp(name, dropped[i]) == 0)
            return false;
    return headers_name_valid(name) && !headers_secret(wire_text(name));
}

static void put_headers(struct buf *headers, struct bytes object)
{
    json_t *all = json_read(object, 0, NULL), *value;
    const char *name;

    json_object_foreach(all, name, value)
    {
        const char *text = json_string_value(value);

        if (text && keeps_header(name) && !strpbrk(text, "\r\n"))
            headers_put(headers, name, wire_text(text));
    }
    json_decref(all);
}

gr_rc page_event(const struct source *source, struct bytes text,
                 struct buf *headers, struct bytes *body,
                 char why[PAGE_WHY_BYTES])
{
    const struct provider_list *list = source_listing(source);
    struct bytes object;

    *body = text;
    buf_reset(headers);
    headers_put(headers, "content-type", wire_text("application/json"));
    if (!is_json(text)) {
        snprintf(why, PAGE_WHY_BYTES, "the event is not JSON");
        return GR_REFUSE;
    }
    if (list->headers.kind != EXPR_NONE && find(text, &list->headers, &object))
        put_headers(headers, object);
    if (list->body.kind != EXPR_NONE && !find(text, &list->body, body)) {
        snprintf(why, PAGE_WHY_BYTES, "the event has nothing at %s",
                 list->body.text);
        return GR_REFUSE;
    }
    if (headers->failed) {
        snprintf(why, PAGE_WHY_BYTES, "its headers are too large");
        return GR_REFUSE;
    }
    return GR_OK;
}
