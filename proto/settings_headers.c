/* Headers of our own, and names of those that are handed on. */
#include "headers.h"
#include "settings_types.h"
#include <string.h>

/* Those of one connection, and those that the request's own form decides. */
static const char *const fixed_headers[] = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "host",
    "expect",
    "proxy-authenticate",
    "proxy-authorization",
    "content-length",
    "content-type",
};

static bool is_fixed(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(fixed_headers); i++)
        if (strcasecmp(fixed_headers[i], name) == 0)
            return true;
    return false;
}

const char *wrong_header_token(const char *text)
{
    return headers_name_valid(text) ? NULL : "is no name of a header";
}

const char *wrong_header_name(const char *text)
{
    if (!headers_name_valid(text))
        return wrong_header_token(text);
    if (strncasecmp(text, "grapnel-", 8) == 0 ||
        strncasecmp(text, "webhook-", 8) == 0)
        return "grapnel-* and webhook-* headers are ours to set";
    if (is_fixed(text))
        return "this header belongs to the connection or to the event's body "
               "and cannot be set";
    return NULL;
}

/* Of a signature: beside the words of headers_secret(). */
static bool is_signature(const char *name)
{
    size_t n = strlen(name);

    return strcasestr(name, "hmac") ||
           (n >= 4 && strcasecmp(name + n - 4, "-sig") == 0);
}

const char *wrong_forward_header(const char *text)
{
    if (is_signature(text) ||
        headers_secret((struct bytes){text, strlen(text)}))
        return "a signature, token or cookie is never forwarded";
    return wrong_header_name(text);
}

static bool header_is_new(const struct conf_value *v, const struct header *all,
                          int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++) {
        if (strcasecmp(all[i].name, name) != 0)
            continue;
        conf_error(v, "is the same header as %s (letter case does not count)",
                   all[i].name);
        return false;
    }
    return true;
}

static void add_header(const struct conf_value *v, struct header **all,
                       int64_t *n)
{
    static const struct conf_key value_key = {
        .name = "value", .flags = CONF_SECRET | CONF_EMPTY_OK};
    const char *wrong = wrong_header_name(v->key);
    char *value = NULL;

    conf_as_text.read(v, &value_key, &value);
    if (!wrong && value)
        wrong = wrong_line(value);
    if (wrong)
        conf_error(v, "%s", wrong);
    if (wrong || !value || !header_is_new(v, *all, *n, v->key)) {
        free(value);
        return;
    }
    *all = gr_realloc(*all, ((size_t)*n + 1) * sizeof **all);
    (*all)[(*n)++] = (struct header){gr_strdup(v->key), value};
}

static void read_headers(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    size_t n = conf_pair_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value pair = conf_pair(v, i);

        add_header(&pair, target, settings_count_at(k, target));
    }
}

/* What they hold is as likely a token as not. */
static void print_headers(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct header *h = *(struct header *const *)target;
    int64_t n = *(const int64_t *)settings_count_at(k, target);

    buf_puts(out, "\n");
    for (int64_t i = 0; i < n; i++) {
        buf_printf(out, "%*s", indent + 2, "");
        conf_put_text(out, h[i].name);
        buf_puts(out, ": \"…\"\n");
    }
}

static bool same_headers(const struct conf_key *k, const void *a, const void *b)
{
    const struct header *l = *(struct header *const *)a,
                        *r = *(struct header *const *)b;
    int64_t n = *(const int64_t *)settings_count_at(k, a);

    if (n != *(const int64_t *)settings_count_at(k, b))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (strcmp(l[i].name, r[i].name) != 0 ||
            strcmp(l[i].value, r[i].value) != 0)
            return false;
    return true;
}

static void fini_headers(const struct conf_key *k, void *target)
{
    struct header **h = target;
    int64_t *n = settings_count_at(k, target);

    for (int64_t i = 0; i < *n; i++) {
        free((*h)[i].name);
        free((*h)[i].value);
    }
    *n = 0;
    settings_fini_pointer(k, target);
}

const struct conf_type settings_as_headers = {
    .name = "map of header to value",
    .read = read_headers,
    .print = print_headers,
    .unset = settings_unset_pointer,
    .same = same_headers,
    .fini = fini_headers,
};
