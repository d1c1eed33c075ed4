/* Makes receivers/vectors.json, which all receiver libraries are tested with: requests as the
 * deliverer signs them, some changed on their way, and series of requests with what a receiver
 * must say about their numbers. Fails when the file is stale; GRAPNEL_WRITE_DOCS=1 writes it anew. */
#include "request.h"
#include <jansson.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#define UNUSED "whsec_YSBzZWNyZXQgdGhhdCBzaWduZWQgbm90aGluZw=="
/* The bytes 0 to 31, and the public key that belongs to them. */
#define PRIVATE "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define PUBLIC  "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

enum {
    SIGNED_S = 1795266557,
    TOLERANCE_S = 300,
};

static const char body[] =
    "{\"event\":\"issue\",\"action\":\"updated\",\"n\":1}";

static struct wire_task task(void)
{
    return (struct wire_task){
        .event_id = wire_text("evt_01M7ZTFTJX2GJ88K9BVSR291WA"),
        .source = wire_text("plane"),
        .type = wire_text("issue.updated"),
        .workspace = wire_text("demo"),
        .received_ms = (int64_t)SIGNED_S * 1000 - 3979,
        .sequence = 19,
        .previous = 17,
        .series = UINT64_C(11400714819323198485),
        .clock = wire_text("issue.created=7,issue.updated=12"),
        .body = wire_text(body)};
}

/* The headers of one attempt. */
static json_t *sign(const char *secrets, const struct wire_task *t,
                    uint64_t attempt)
{
    struct outgoing_request r;
    struct signer signer;
    json_t *headers;

    assert_int_equal(signer_init(&signer, wire_text(secrets)), GR_OK);
    request_init(&r);
    request_headers(&r, t, (struct bytes){0}, &signer, false, attempt,
                    (int64_t)SIGNED_S * 1000);
    headers = request_headers_json(&r, (struct bytes){0});
    request_fini(&r);
    signer_fini(&signer);
    return headers;
}

static json_t *base64(struct bytes data)
{
    unsigned char *text = gr_alloc(data.n * 4 / 3 + 8);
    json_t *value;

    EVP_EncodeBlock(text, data.p, (int)data.n);
    value = json_string((const char *)text);
    free(text);
    return value;
}

static json_t *words(const char *text)
{
    json_t *all = json_array();

    while (*text) {
        size_t n = strcspn(text, " ");

        json_array_append_new(all, json_stringn(text, n));
        text += n + (text[n] == ' ');
    }
    return all;
}

/* ---- requests ---- */

/* On the way to the receiver. */
enum change {
    NOTHING,
    SET,      /* the value of `header` */
    REMOVE,   /* `header` */
    ADD,      /* one more line `header` */
    COPY,     /* the value of `value`, a header, to `header` */
    UPPER,    /* all names in capitals, lines in reverse order */
    BODY,     /* one more byte */
    STANDARD, /* removes all grapnel- headers, as an alert has none */
};

struct changed {
    const char *name;
    const char *secrets, *keys;
    enum change change;
    const char *header, *value;
    int late_s; /* when it is received */
    bool valid, standard;
};

static const struct changed requests[] = {
    {.name = "as sent", .valid = true},
    {.name = "two secrets, the receiver has the first",
     .secrets = SECRET " " OTHER,
     .valid = true},
    {.name = "two secrets, the receiver has the second",
     .secrets = SECRET " " OTHER,
     .keys = OTHER,
     .valid = true},
    {.name = "the receiver has a new secret that does not sign yet",
     .keys = UNUSED " " SECRET,
     .valid = true},
    {.name = "Ed25519", .secrets = PRIVATE, .keys = PUBLIC, .valid = true},
    {.name = "HMAC and Ed25519, the receiver has the public key",
     .secrets = SECRET " " PRIVATE,
     .keys = PUBLIC,
     .valid = true},
    {.name = "HMAC and Ed25519, the receiver has the secret",
     .secrets = PRIVATE " " SECRET,
     .valid = true},
    {.name = "names in capitals, in another order",
     .change = UPPER,
     .valid = true},
    {.name = "a header that is not signed is added",
     .change = ADD,
     .header = "x-forwarded-for",
     .value = "192.0.2.1",
     .valid = true},
    {.name = "blanks around a value",
     .change = SET,
     .header = "grapnel-type",
     .value = " \tissue.updated \t",
     .valid = true},
    {.name = "the oldest time that is accepted",
     .late_s = TOLERANCE_S,
     .valid = true},
    {.name = "the latest time that is accepted",
     .late_s = -TOLERANCE_S,
     .valid = true},
    {.name = "an alert: only webhook-signature",
     .change = STANDARD,
     .standard = true,
     .valid = true},
    {.name = "an alert, of another sender",
     .keys = OTHER,
     .change = STANDARD,
     .standard = true},
    {.name = "an alert that is too old",
     .late_s = TOLERANCE_S + 1,
     .change = STANDARD,
     .standard = true},
    {.name = "a delivery without its grapnel- headers", .change = STANDARD},
    {.name = "a changed value",
     .change = SET,
     .header = "grapnel-sequence",
     .value = "20"},
    {.name = "a removed header",
     .change = REMOVE,
     .header = "grapnel-previous"},
    {.name = "an added header",
     .change = ADD,
     .header = "grapnel-replay",
     .value = "1"},
    {.name = "an added header that no version has yet",
     .change = ADD,
     .header = "Grapnel-New",
     .value = "1"},
    {.name = "a header twice",
     .change = ADD,
     .header = "Grapnel-Sequence",
     .value = "20"},
    {.name = "a header twice with the same value",
     .change = ADD,
     .header = "Grapnel-Sequence",
     .value = "19"},
    {.name = "webhook-id twice",
     .change = ADD,
     .header = "webhook-id",
     .value = "evt_01M7ZTFTJX2GJ88K9BVSR291WA"},
    {.name = "another body", .change = BODY},
    {.name = "another id",
     .change = SET,
     .header = "webhook-id",
     .value = "evt_01M7ZTFTJX2GJ88K9BVSR291WB"},
    {.name = "an empty id", .change = SET, .header = "webhook-id", .value = ""},
    {.name = "another time",
     .change = SET,
     .header = "webhook-timestamp",
     .value = "1795266558"},
    {.name = "a time that is too old", .late_s = TOLERANCE_S + 1},
    {.name = "a time that is too far ahead", .late_s = -TOLERANCE_S - 1},
    {.name = "a time that is not a number",
     .change = SET,
     .header = "webhook-timestamp",
     .value = "+1795266557"},
    {.name = "without webhook-signature",
     .change = REMOVE,
     .header = "webhook-signature"},
    {.name = "without grapnel-signature",
     .change = REMOVE,
     .header = "grapnel-signature"},
    {.name = "an empty grapnel-signature",
     .change = SET,
     .header = "grapnel-signature",
     .value = ""},
    {.name = "the value of webhook-signature as grapnel-signature",
     .change = COPY,
     .header = "grapnel-signature",
     .value = "webhook-signature"},
    {.name = "the value of grapnel-signature as webhook-signature",
     .change = COPY,
     .header = "webhook-signature",
     .value = "grapnel-signature"},
    {.name = "a version that is not known",
     .change = SET,
     .header = "grapnel-signature",
     .value = "v2,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
    {.name = "a signature without a version",
     .change = SET,
     .header = "webhook-signature",
     .value = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
    {.name = "a signature that is not base64",
     .change = SET,
     .header = "webhook-signature",
     .value = "v1,%%% v1a,%%%"},
    {.name = "another secret", .keys = UNUSED},
    {.name = "another public key", .keys = PUBLIC},
};

static size_t find(json_t *headers, const char *name)
{
    json_t *pair;
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        if (strcmp(json_string_value(json_array_get(pair, 0)), name) == 0)
            return i;
    }
    fail_msg("no header %s", name);
    return 0;
}

static json_t *upper(json_t *headers)
{
    json_t *all = json_array(), *pair;
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        char *name = gr_printf("%s",
                               json_string_value(json_array_get(pair, 0)));

        for (char *c = name; *c; c++)
            if (*c >= 'a' && *c <= 'z')
                *c = (char)(*c - 'a' + 'A');
        json_array_insert_new(all, 0,
                              json_pack("[sO]", name, json_array_get(pair, 1)));
        free(name);
    }
    json_decref(headers);
    return all;
}

/* Returns the headers as they arrive. */
static json_t *apply(const struct changed *c, json_t *headers)
{
    switch (c->change) {
    case NOTHING:
    case BODY:
        break;
    case SET:
        json_array_set_new(json_array_get(headers, find(headers, c->header)), 1,
                           json_string(c->value));
        break;
    case REMOVE:
        json_array_remove(headers, find(headers, c->header));
        break;
    case ADD:
        json_array_append_new(headers, json_pack("[ss]", c->header, c->value));
        break;
    case COPY:
        json_array_set(
            json_array_get(headers, find(headers, c->header)), 1,
            json_array_get(json_array_get(headers, find(headers, c->value)),
                           1));
        break;
    case UPPER:
        return upper(headers);
    case STANDARD:
        for (size_t i = json_array_size(headers); i-- > 0;)
            if (strncmp(json_string_value(
                            json_array_get(json_array_get(headers, i), 0)),
                        "grapnel-", 8) == 0)
                json_array_remove(headers, i);
        break;
    }
    return headers;
}

static json_t *request(const struct changed *c, const struct wire_task *t)
{
    char *more = gr_printf("%.*s ", (int)t->body.n, (const char *)t->body.p);
    json_t *headers = apply(c, sign(c->secrets ? c->secrets : SECRET, t, 2));
    json_t *all = json_pack(
        "{ss sb sb so sI so so}", "name", c->name, "valid", c->valid,
        "standard", c->standard, "keys", words(c->keys ? c->keys : SECRET),
        "now", (json_int_t)SIGNED_S + c->late_s, "headers", headers,
        "body_base64", base64(c->change == BODY ? wire_text(more) : t->body));

    free(more);
    return all;
}

/* Requests whose values are unusual; all are valid. */
static void add_unusual(json_t *all)
{
    struct wire_task t = task();
    struct changed c = {.valid = true};

    t.gap = wire_text("3-5");
    t.late = 1;
    t.replay = 1;
    t.source_sequence = wire_text("6");
    c.name = "every header";
    json_array_append_new(all, request(&c, &t));
    t = task();
    t.sequence = t.previous = t.series = 0;
    t.clock = (struct bytes){0};
    c.name = "a test of the endpoint: without numbers";
    json_array_append_new(all, request(&c, &t));
    t = task();
    t.body = (struct bytes){"", 0};
    c.name = "an empty body";
    json_array_append_new(all, request(&c, &t));
    t.body = (struct bytes){"\0\xff\xfe\r\n{", 6};
    c.name = "a body that is not UTF-8";
    json_array_append_new(all, request(&c, &t));
    t = task();
    t.type = wire_text("pr\xc3\xbc"
                       "fung\xe2\x82\xac");
    t.workspace = wire_text(
        "na\xc3\xa0"); /* its last byte is Latin-1's space */
    c.name = "values in UTF-8";
    json_array_append_new(all, request(&c, &t));
    t = task();
    t.workspace = (struct bytes){"", 0};
    c.name = "an empty value";
    json_array_append_new(all, request(&c, &t));
}

/* ---- numbers ---- */

struct step {
    const char *scenario; /* a new one begins; NULL: the same */
    int event;            /* its id */
    uint64_t series, sequence, previous;
    const char *workspace; /* NULL: "w" */
    const char *result;
    uint64_t missing, after;
    bool replay, unsure, filled;
    int conflict;        /* an event */
    const char *at_last; /* JSON: what is missing after it */
};

static const struct step steps[] = {
    {"in order", 1, 1, 1, 0, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 2, 1, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 1, 1, 0, "other", "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 4, 1, 7, 2, NULL, "ok", 0, 0, 0, 0, 0, 0, "[]"},

    {"duplicates", 1, 1, 1, 0, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 1, 1, 1, 0, NULL, "duplicate", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 2, 1, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 1, 1, 1, 0, NULL, "duplicate", 0, 0, 1, 0, 0, 0, "[]"},

    {"a loss", 1, 1, 1, 0, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 2, 1, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 4, 1, 4, 3, NULL, "gap_detected", 3, 2, 0, 0, 0, 0, NULL},
    {NULL, 5, 1, 5, 4, NULL, "ok", 0, 0, 0, 0, 0, 0,
     "[[\"1\", \"w\", 3, false]]"},

    {"a loss, sent again", 1, 1, 1, 0, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 1, 3, 2, NULL, "gap_detected", 2, 1, 0, 0, 0, 0, NULL},
    {NULL, 4, 1, 4, 3, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 2, 1, NULL, "old_event", 0, 0, 1, 0, 1, 0, NULL},
    {NULL, 5, 1, 5, 4, NULL, "ok", 0, 0, 0, 0, 0, 0, "[]"},

    {"several are lost, and arrive from the last to the first", 1, 1, 1, 0,
     NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 9, 1, 9, 7, NULL, "gap_detected", 7, 1, 0, 0, 0, 0, NULL},
    {NULL, 7, 1, 7, 5, NULL, "old_event", 5, 1, 0, 0, 1, 0, NULL},
    {NULL, 5, 1, 5, 1, NULL, "old_event", 0, 0, 0, 0, 1, 0, "[]"},

    {"a receiver that is younger than the endpoint", 1, 1, 7, 5, NULL,
     "old_event", 0, 0, 1, 0, 0, 0, NULL},
    {NULL, 2, 1, 12, 11, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 1, 11, 9, NULL, "old_event", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 4, 1, 3, 0, NULL, "old_event", 0, 0, 1, 0, 0, 0, NULL},
    {NULL, 5, 1, 15, 14, NULL, "gap_detected", 14, 12, 0, 0, 0, 0,
     "[[\"1\", \"w\", 14, false]]"},

    {"one number, two events", 1, 1, 13, 12, NULL, "ok", 0, 0, 0, 0, 0, 0,
     NULL},
    {NULL, 2, 1, 14, 13, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 1, 14, 13, NULL, "old_event", 0, 0, 0, 0, 0, 2, "[]"},

    {"a new series", 1, 1, 10, 9, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 12, 10, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 8, 2, 10, 8, NULL, "new_series", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 9, 2, 13, 12, NULL, "gap_detected", 12, 10, 0, 1, 0, 0, NULL},
    {NULL, 1, 2, 15, 14, NULL, "duplicate", 14, 13, 0, 0, 0, 0, NULL},
    {NULL, 10, 2, 21, 20, NULL, "gap_detected", 20, 15, 0, 0, 0, 0, NULL},
    {NULL, 2, 2, 12, 10, NULL, "duplicate", 0, 0, 0, 0, 1, 0, NULL},
    {NULL, 11, 2, 14, 13, NULL, "old_event", 0, 0, 0, 0, 1, 0, NULL},
    {NULL, 12, 2, 5, 4, "other", "ok", 0, 0, 0, 0, 0, 0,
     "[[\"2\", \"w\", 20, false]]"},

    {"a new series that begins with duplicates", 1, 1, 5, 4, NULL, "ok", 0, 0,
     0, 0, 0, 0, NULL},
    {NULL, 2, 1, 6, 5, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 1, 2, 5, 4, NULL, "duplicate", 0, 0, 1, 0, 0, 0, NULL},
    {NULL, 2, 2, 6, 5, NULL, "duplicate", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 2, 7, 6, NULL, "new_series", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 4, 2, 3, 2, NULL, "old_event", 0, 0, 1, 0, 0, 0, NULL},
    {NULL, 5, 2, 8, 7, NULL, "ok", 0, 0, 0, 0, 0, 0, "[]"},

    {"what is missing may be an event of the old series", 1, 1, 5, 4, NULL,
     "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 2, 1, 6, 5, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 3, 2, 5, 4, NULL, "new_series", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 4, 2, 7, 6, NULL, "gap_detected", 6, 5, 0, 1, 0, 0,
     "[[\"2\", \"w\", 6, true]]"},

    {"without numbers", 1, 0, 0, 0, NULL, "ok", 0, 0, 0, 0, 0, 0, NULL},
    {NULL, 1, 0, 0, 0, NULL, "duplicate", 0, 0, 0, 0, 0, 0, "[]"},
};

static char *id_of(int event)
{
    return gr_printf("evt_%026d", event);
}

static json_t *number(uint64_t n)
{
    return n ? json_integer((json_int_t)n) : json_null();
}

static json_t *step(const struct step *s)
{
    char *id = id_of(s->event), *other = id_of(s->conflict);
    struct wire_task t = task();
    json_t *all;

    t.event_id = wire_text(id);
    t.workspace = wire_text(s->workspace ? s->workspace : "w");
    t.series = s->series;
    t.sequence = s->sequence;
    t.previous = s->previous;
    t.replay = s->replay;
    t.clock = (struct bytes){0};
    all = json_pack("{so so ss so so sb sb so}", "headers", sign(SECRET, &t, 1),
                    "body_base64", base64(t.body), "result", s->result,
                    "missing", number(s->missing), "after",
                    s->missing ? json_integer((json_int_t)s->after)
                               : json_null(),
                    "unsure", s->unsure, "filled", s->filled, "conflict",
                    s->conflict ? json_string(other) : json_null());
    free(id);
    free(other);
    return all;
}

static json_t *scenarios(void)
{
    json_t *all = json_array(), *deliveries = NULL, *scenario = NULL;

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (steps[i].scenario) {
            deliveries = json_array();
            scenario = json_pack("{ss ss sI so}", "name", steps[i].scenario,
                                 "key", SECRET, "now", (json_int_t)SIGNED_S,
                                 "deliveries", deliveries);
            json_array_append_new(all, scenario);
        }
        json_array_append_new(deliveries, step(&steps[i]));
        if (steps[i].at_last) {
            json_t *missing = json_loads(steps[i].at_last, 0, NULL);

            assert_non_null(missing);
            json_object_set_new(scenario, "missing", missing);
        }
    }
    return all;
}

/* ---- the file ---- */

static char *path_of_vectors(void)
{
    char here[4096];

    if (*__FILE__ == '/' || !getcwd(here, sizeof here))
        *here = 0;
    return gr_printf("%s%s%.*s%s", here, *here ? "/" : "",
                     (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__,
                     "/../../receivers/vectors.json");
}

static void the_vectors_of_the_receivers_are_fresh(void **state)
{
    json_t *all = json_array(), *file;
    struct wire_task t = task();
    char *path = path_of_vectors();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        json_array_append_new(all, request(&requests[i], &t));
    add_unusual(all);
    all = json_pack("{so so}", "requests", all, "order", scenarios());
    if (getenv("GRAPNEL_WRITE_DOCS"))
        assert_int_equal(
            json_dump_file(all, path, JSON_INDENT(1) | JSON_ENSURE_ASCII), 0);
    file = json_load_file(path, 0, NULL);
    if (!file || !json_equal(all, file))
        fail_msg("%s is stale: run this test with GRAPNEL_WRITE_DOCS=1", path);
    json_decref(file);
    json_decref(all);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_receivers_are_fresh)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
