/* support.c: requests of ../../vectors.json, for the tests. */
#include "support.h"
#include <strings.h>

static json_t *all;

static void *copied(const void *p, size_t n)
{
    char *copy = malloc(n ? n : 1);

    assert_non_null(copy);
    if (n)
        memcpy(copy, p, n);
    return copy;
}

json_t *vectors(void)
{
    json_error_t error;

    if (!all)
        all = json_load_file(VECTORS, 0, &error);
    if (!all)
        fail_msg("%s: %s", VECTORS, error.text);
    return all;
}

void vectors_close(void)
{
    json_decref(all);
    all = NULL;
}

json_t *scenario(const char *name)
{
    json_t *s;
    size_t i;

    json_array_foreach(json_object_get(vectors(), "order"), i, s)
    {
        if (strcmp(json_string_value(json_object_get(s, "name")), name) == 0)
            return s;
    }
    fail_msg("there is no scenario %s", name);
    return NULL;
}

static int sextet(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);

    return at && c ? (int)(at - digits) : 0;
}

static void read_body(struct request *r, const char *text)
{
    size_t n = strlen(text);
    unsigned char *out = malloc(n + 1);

    assert_non_null(out);
    r->body_bytes = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        unsigned bits =
            (unsigned)(sextet(text[i]) << 18 | sextet(text[i + 1]) << 12 |
                       sextet(text[i + 2]) << 6 | sextet(text[i + 3]));

        for (int k = 2; k >= 0; k--) {
            if (text[i + 3 - (size_t)k] != '=' || k == 2)
                out[r->body_bytes++] = (unsigned char)(bits >> (8 * k));
        }
    }
    r->body = copied(out, r->body_bytes);
    free(out);
}

struct request request_of(json_t *vector)
{
    struct request r = {.count = 0};
    json_t *pair;
    size_t i;

    json_array_foreach(json_object_get(vector, "headers"), i, pair)
    {
        json_t *value = json_array_get(pair, 1);

        add_header(&r, json_string_value(json_array_get(pair, 0)),
                   json_string_value(value), json_string_length(value));
    }
    read_body(&r, json_string_value(json_object_get(vector, "body_base64")));
    return r;
}

struct request delivery(const char *name, size_t n)
{
    return request_of(
        json_array_get(json_object_get(scenario(name), "deliveries"), n));
}

void request_free(struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free((char *)r->headers[i].name);
        free((char *)r->headers[i].value);
    }
    free(r->body);
}

struct grapnel_header *header(struct request *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->headers[i].name_bytes == strlen(name) &&
            strncasecmp(r->headers[i].name, name, strlen(name)) == 0)
            return &r->headers[i];
    }
    fail_msg("there is no header %s", name);
    return NULL;
}

void set_value(struct grapnel_header *h, const void *value, size_t bytes)
{
    char *copy = copied(value, bytes);

    free((char *)h->value);
    h->value = copy;
    h->value_bytes = bytes;
}

void add_header(struct request *r, const char *name, const void *value,
                size_t bytes)
{
    assert_true(r->count < HEADERS_MAX);
    r->headers[r->count++] = (struct grapnel_header){
        copied(name, strlen(name)), strlen(name), copied(value, bytes), bytes};
}

int do_nothing(void *arg, const struct grapnel_event *e,
               const struct grapnel_check *check,
               const struct grapnel_transaction *t)
{
    (void)e;
    (void)check;
    (void)t;
    return arg ? *(int *)arg : 0;
}

const char *scenario_key(void)
{
    return json_string_value(json_object_get(scenario("in order"), "key"));
}

int64_t scenario_now_s(void)
{
    return json_integer_value(json_object_get(scenario("in order"), "now"));
}
