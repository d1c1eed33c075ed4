/* Requests that Grapnel signed are accepted, and changed or hostile ones are refused. */
#include "support.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>

static int64_t the_time(void *arg)
{
    return *(int64_t *)arg;
}

static struct grapnel_receiver *receiver(const char *secrets, int64_t *now_s)
{
    struct grapnel_error error = {""};
    struct grapnel_receiver *r = grapnel_receiver_new(NULL, secrets, &error);

    if (!r)
        fail_msg("%s", error.text);
    grapnel_receiver_set_clock(r, the_time, now_s);
    return r;
}

/* Verifies it with the key of the scenarios. */
static enum grapnel_status verified(struct request *q,
                                    struct grapnel_error *error)
{
    int64_t now_s = scenario_now_s();
    struct grapnel_receiver *r = receiver(scenario_key(), &now_s);
    struct grapnel_event *e;
    enum grapnel_status status = grapnel_verify(
        r, q->headers, q->count, q->body, q->body_bytes, &e, error);

    assert_int_equal(!status, e != NULL);
    grapnel_event_free(e);
    grapnel_receiver_free(r);
    return status;
}

static void must_be_refused(struct request *q, const char *said)
{
    struct grapnel_error error = {""};

    assert_int_equal(verified(q, &error), GRAPNEL_REFUSED);
    if (!strstr(error.text, said))
        fail_msg("\"%s\" does not say \"%s\"", error.text, said);
    request_free(q);
}

static char *joined(json_t *keys)
{
    static char text[1000];
    json_t *key;
    size_t i, n = 0;

    json_array_foreach(keys, i, key) n += (size_t)snprintf(
        text + n, sizeof text - n, "%s ", json_string_value(key));
    return text;
}

static void every_request(void **state)
{
    json_t *v;
    size_t i;

    (void)state;
    json_array_foreach(json_object_get(vectors(), "requests"), i, v)
    {
        int64_t now_s = json_integer_value(json_object_get(v, "now"));
        bool valid = json_is_true(json_object_get(v, "valid"));
        struct grapnel_receiver *r = receiver(
            joined(json_object_get(v, "keys")), &now_s);
        struct request q = request_of(v);
        struct grapnel_error error = {""};
        struct grapnel_event *e;
        enum grapnel_status status =
            (json_is_true(json_object_get(v, "standard"))
                 ? grapnel_verify_standard
                 : grapnel_verify)(r, q.headers, q.count, q.body, q.body_bytes,
                                   &e, &error);

        if (status != (valid ? GRAPNEL_DONE : GRAPNEL_REFUSED))
            fail_msg("%s: %d: %s",
                     json_string_value(json_object_get(v, "name")), status,
                     error.text);
        if (valid) {
            const struct grapnel_header *id = header(&q, "webhook-id");

            assert_int_equal(strlen(e->id), id->value_bytes);
            assert_memory_equal(e->id, id->value, id->value_bytes);
            assert_ptr_equal(e->body, q.body);
            assert_non_null(e->body);
            assert_int_equal(e->body_bytes, q.body_bytes);
        } else {
            assert_null(e);
            assert_true(error.text[0]);
        }
        grapnel_event_free(e);
        grapnel_receiver_free(r);
        request_free(&q);
    }
}

static json_t *vector(const char *name)
{
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(vectors(), "requests"), i, v)
    {
        if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
            return v;
    }
    fail_msg("there is no request %s", name);
    return NULL;
}

static struct grapnel_event *accepted(const char *name, struct request *q)
{
    json_t *v = vector(name);
    int64_t now_s = json_integer_value(json_object_get(v, "now"));
    struct grapnel_receiver *r = receiver(joined(json_object_get(v, "keys")),
                                          &now_s);
    struct grapnel_event *e;

    *q = request_of(v);
    assert_int_equal(grapnel_verify(r, q->headers, q->count, q->body,
                                    q->body_bytes, &e, NULL),
                     GRAPNEL_DONE);
    grapnel_receiver_free(r);
    return e;
}

static void fields_of_an_event(void **state)
{
    struct request q;
    struct grapnel_event *e = accepted("every header", &q);

    (void)state;
    assert_string_equal(e->source, "plane");
    assert_string_equal(e->type, "issue.updated");
    assert_string_equal(e->workspace, "demo");
    assert_string_equal(e->time, "2026-11-21T13:09:13.021Z");
    assert_int_equal(e->attempt, 2);
    assert_true(e->numbered && e->late && e->replay);
    assert_string_equal(e->series, "11400714819323198485");
    assert_int_equal(e->sequence, 19);
    assert_int_equal(e->previous, 17);
    assert_string_equal(e->source_sequence, "6");
    assert_string_equal(e->gap, "3-5");
    assert_int_equal(grapnel_event_clock(e, "issue.created"), 7);
    assert_int_equal(grapnel_event_clock(e, "issue.updated"), 12);
    assert_int_equal(grapnel_event_clock(e, "issue"), -1);
    assert_string_equal(grapnel_event_header(e, "grapnel-hops"), "1");
    assert_null(grapnel_event_header(e, "grapnel-signature"));
    for (size_t i = 1; i < e->header_count; i++)
        assert_true(strcmp(e->headers[i - 1].name, e->headers[i].name) < 0);
    grapnel_event_free(e);
    request_free(&q);

    e = accepted("a test of the endpoint: without numbers", &q);
    assert_false(e->numbered || e->late || e->replay);
    assert_string_equal(e->series, "");
    assert_int_equal(grapnel_event_clock(e, "issue.created"), -1);
    grapnel_event_free(e);
    request_free(&q);

    e = accepted("values in UTF-8", &q);
    assert_string_equal(e->type, "prüfung€");
    assert_string_equal(e->workspace, "naà");
    grapnel_event_free(e);
    request_free(&q);
}

static void a_type_of_the_clock_is_decoded(void **state)
{
    const struct grapnel_header clock = {
        "grapnel-clock", 13, "a%2Cb%3d%25=3,%=1,%4=1,c%00=1,=2,x=y,last=12",
        44};
    const struct grapnel_event e = {.headers = &clock, .header_count = 1};

    (void)state;
    assert_int_equal(grapnel_event_clock(&e, "a,b=%"), 3);
    assert_int_equal(grapnel_event_clock(&e, "last"), 12);
    assert_int_equal(grapnel_event_clock(&e, ""), 2);
    assert_int_equal(grapnel_event_clock(&e, "c"), -1);
    assert_int_equal(grapnel_event_clock(&e, "%"), -1);
    assert_int_equal(grapnel_event_clock(&e, "x"), -1);
}

static void wrong_secrets_are_refused_at_the_start(void **state)
{
    static const char *const wrong[][2] = {
        {"secret", "begins with"},
        {"", "at least one"},
        {" \n", "at least one"},
        {"whsec_?", "base64"},
        {"whsec_", "base64"},
        {"whsec_AAA", "base64"},
        {"whsec_AAB=", "base64"},
        {"whsec_====", "base64"},
        {"whsec_A=AA", "base64"},
        {"whsk_AAAA", "private key"},
        {"whpk_AAAA", "32 bytes"},
        {"whsec_AAAA w", "begins with"},
        {"whsec_AAAA,whsec_A", "base64"},
    };
    char many[17 * 11 + 1] = "", longer[1100] = "whsec_";
    struct grapnel_error error;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(grapnel_receiver_new(NULL, wrong[i][0], &error));
        if (!strstr(error.text, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], error.text);
    }
    assert_null(grapnel_receiver_new(NULL, NULL, NULL));
    for (int i = 0; i < 17; i++)
        memcpy(many + 11 * i, "whsec_AAAA ", 11);
    assert_null(grapnel_receiver_new(NULL, many, &error));
    assert_non_null(strstr(error.text, "more than 16"));
    memset(longer + 6, 'A', 1080);
    assert_null(grapnel_receiver_new(NULL, longer, &error));
    assert_non_null(strstr(error.text, "the limit is 1024"));
    grapnel_receiver_free(NULL);
}

/* "VERSION,SIGNATURE" as a stranger makes it, with the public key as the key of an HMAC. */
static void forge(const char *version, const unsigned char key[32],
                  struct request *q)
{
    const struct grapnel_header *id = header(q, "webhook-id");
    const struct grapnel_header *at = header(q, "webhook-timestamp");
    unsigned char mac[32], text[45];
    char content[4000], value[60];
    int n = snprintf(content, sizeof content, "%.*s.%.*s.%.*s",
                     (int)id->value_bytes, id->value, (int)at->value_bytes,
                     at->value, (int)q->body_bytes, q->body);

    HMAC(EVP_sha256(), key, 32, (unsigned char *)content, (size_t)n, mac, NULL);
    EVP_EncodeBlock(text, mac, 32);
    n = snprintf(value, sizeof value, "%s,%s", version, text);
    set_value(header(q, "webhook-signature"), value, (size_t)n);
}

static void a_public_key_is_never_an_hmac_key(void **state)
{
    json_t *v = vector("Ed25519");
    int64_t now_s = json_integer_value(json_object_get(v, "now"));
    const char *key = json_string_value(
        json_array_get(json_object_get(v, "keys"), 0));
    struct request q = request_of(v);
    struct grapnel_receiver *r = receiver(key, &now_s), *mistaken;
    unsigned char bytes[33];
    struct grapnel_event *e;
    char secret[200];

    (void)state;
    assert_int_equal(EVP_DecodeBlock(bytes, (const unsigned char *)key + 5, 44),
                     33);
    forge("v1a", bytes, &q);
    assert_int_equal(grapnel_verify_standard(r, q.headers, q.count, q.body,
                                             q.body_bytes, &e, NULL),
                     GRAPNEL_REFUSED);
    forge("v1", bytes, &q);
    assert_int_equal(grapnel_verify_standard(r, q.headers, q.count, q.body,
                                             q.body_bytes, &e, NULL),
                     GRAPNEL_REFUSED);
    /* The forgery is right: who gives the key a wrong prefix accepts it. */
    snprintf(secret, sizeof secret, "whsec_%s", key + 5);
    mistaken = receiver(secret, &now_s);
    assert_int_equal(grapnel_verify_standard(mistaken, q.headers, q.count,
                                             q.body, q.body_bytes, &e, NULL),
                     GRAPNEL_DONE);
    grapnel_event_free(e);
    grapnel_receiver_free(mistaken);
    grapnel_receiver_free(r);
    request_free(&q);
}

static void hundreds_of_signatures_are_refused(void **state)
{
    struct request q = delivery("in order", 0);
    struct grapnel_header *h = header(&q, "webhook-signature");
    char value[4000], huge[9000];
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 33; i++)
        n += (size_t)snprintf(value + n, sizeof value - n, "%s%.*s",
                              i ? " " : "", (int)h->value_bytes, h->value);
    set_value(h, value, n - h->value_bytes - 1); /* 32 of them */
    assert_int_equal(verified(&q, NULL), GRAPNEL_DONE);
    set_value(h, value, n);
    must_be_refused(&q, "more than 32");

    q = delivery("in order", 0);
    memset(huge, 'x', sizeof huge);
    set_value(header(&q, "grapnel-signature"), huge, sizeof huge);
    must_be_refused(&q, "the limit is 8192");
}

/* No bit of a signed part can be changed. */
static void every_changed_bit_is_found(void **state)
{
    int64_t now_s = scenario_now_s();
    struct grapnel_receiver *r = receiver(scenario_key(), &now_s);
    struct request q = delivery("in order", 1);
    struct grapnel_event *e;

    (void)state;
    grapnel_receiver_set_tolerance(r, (int64_t)1 << 50);
    for (size_t i = 0; i <= q.count; i++) {
        char *bytes = i < q.count ? (char *)q.headers[i].value : q.body;
        size_t n = i < q.count ? q.headers[i].value_bytes : q.body_bytes;

        if (i < q.count && q.headers[i].name[0] == 'U') /* User-Agent */
            continue;
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            if (grapnel_verify(r, q.headers, q.count, q.body, q.body_bytes, &e,
                               NULL) != GRAPNEL_REFUSED)
                fail_msg("bit %zu of part %zu was changed", bit, i);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
    assert_int_equal(
        grapnel_verify(r, q.headers, q.count, q.body, q.body_bytes, &e, NULL),
        GRAPNEL_DONE);
    grapnel_event_free(e);
    grapnel_receiver_free(r);
    request_free(&q);
}

static void hostile_headers_are_refused(void **state)
{
    static char huge[GRAPNEL_SIGNED_MAX_BYTES + 1];
    static const char id[GRAPNEL_ID_MAX_BYTES + 1];
    static const char *const lines[] = {"x\ngrapnel-z y", "x\r", "x\0y"};
    static const size_t bytes[] = {14, 2, 3};
    char name[32];
    struct request q;

    (void)state;
    for (int i = 0; i < 3; i++) {
        q = delivery("in order", 0);
        add_header(&q, "grapnel-new", lines[i], bytes[i]);
        must_be_refused(&q, "line end or a 0 byte");
        q = delivery("in order", 0);
        set_value(header(&q, "webhook-id"), lines[i], bytes[i]);
        must_be_refused(&q, "webhook-id has a line end or a 0 byte");
        q = delivery("in order", 0);
        add_header(&q, i ? "grapnel-a b" : "Grapnel-\xff", "x", 1);
        must_be_refused(&q, i ? "the byte 0x20" : "the byte 0xff");
    }
    q = delivery("in order", 0);
    add_header(&q, "GRAPNEL-SERIES", "1", 1);
    must_be_refused(&q, "two headers grapnel-series");
    q = delivery("in order", 0);
    memset(huge, 'x', sizeof huge);
    add_header(&q, "grapnel-huge", huge, sizeof huge);
    must_be_refused(&q, "more than 65536 bytes");
    q = delivery("in order", 0);
    for (int i = 0; i < 65; i++) {
        snprintf(name, sizeof name, "grapnel-%d", i);
        add_header(&q, name, "", 0);
    }
    must_be_refused(&q, "more than 64 headers");
    q = delivery("in order", 0);
    set_value(header(&q, "webhook-id"), id, sizeof id);
    must_be_refused(&q, "line end or a 0 byte");
    q = delivery("in order", 0);
    set_value(header(&q, "webhook-id"), huge, GRAPNEL_ID_MAX_BYTES + 1);
    must_be_refused(&q, "256 bytes, not 1 to 255");
    q = delivery("in order", 0);
    set_value(header(&q, "webhook-timestamp"), "99999999999999999999", 20);
    must_be_refused(&q, "is not a number");
    q = delivery("in order", 0);
    set_value(header(&q, "webhook-timestamp"), "", 0);
    must_be_refused(&q, "is not a number");
    q = delivery("in order", 0);
    add_header(&q, "grapnel-", "x", 1); /* is covered, so it is wrong */
    must_be_refused(&q, "grapnel-signature is wrong");
}

static void a_request_without_anything_is_refused(void **state)
{
    const struct grapnel_header empty[3] = {{NULL, 0, NULL, 0}};
    int64_t now_s = scenario_now_s();
    struct grapnel_receiver *r = receiver(scenario_key(), &now_s);
    struct grapnel_event *e;

    (void)state;
    assert_int_equal(grapnel_verify(r, NULL, 0, NULL, 0, &e, NULL),
                     GRAPNEL_REFUSED);
    assert_int_equal(grapnel_verify(r, empty, 3, NULL, 0, &e, NULL),
                     GRAPNEL_REFUSED);
    now_s = INT64_MIN; /* a clock that fails */
    assert_int_equal(grapnel_verify(r, empty, 3, NULL, 0, &e, NULL),
                     GRAPNEL_REFUSED);
    grapnel_receiver_free(r);
}

/* Each header of a delivery missing, and each of them twice. */
static void missing_and_repeated_headers_are_refused(void **state)
{
    struct request q = delivery("in order", 0);
    size_t count = q.count;

    (void)state;
    request_free(&q);
    for (size_t i = 0; i < 2 * count; i++) {
        struct grapnel_header *h;

        q = delivery("in order", 0);
        h = &q.headers[i / 2];
        if (h->name[0] == 'U') { /* User-Agent is not signed */
            request_free(&q);
            continue;
        }
        if (i % 2) {
            char name[64];

            snprintf(name, sizeof name, "%.*s", (int)h->name_bytes, h->name);
            add_header(&q, name, h->value, h->value_bytes);
        } else {
            ((char *)h->name)[0] = '?';
        }
        must_be_refused(&q, "");
    }
}

enum { THREADS = 4 };

/* For all threads: one receiver and one request. */
struct shared {
    struct grapnel_receiver *receiver;
    struct request request;
};

static void *verify_often(void *arg)
{
    struct shared *s = arg;
    size_t done = 0;

    for (int i = 0; i < 50; i++) {
        struct grapnel_event *e;

        done += grapnel_verify(s->receiver, s->request.headers,
                               s->request.count, s->request.body,
                               s->request.body_bytes, &e, NULL) == GRAPNEL_DONE;
        grapnel_event_free(e);
    }
    return done == 50 ? s : NULL;
}

static void threads_share_a_receiver(void **state)
{
    static const char *const names[] = {
        "HMAC and Ed25519, the receiver has the public key",
        "HMAC and Ed25519, the receiver has the secret"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        json_t *v = vector(names[i]);
        int64_t now_s = json_integer_value(json_object_get(v, "now"));
        struct shared s = {receiver(joined(json_object_get(v, "keys")), &now_s),
                           request_of(v)};
        pthread_t threads[THREADS];

        for (int k = 0; k < THREADS; k++)
            assert_int_equal(
                pthread_create(&threads[k], NULL, verify_often, &s), 0);
        for (int k = 0; k < THREADS; k++) {
            void *said;

            pthread_join(threads[k], &said);
            assert_ptr_equal(said, &s);
        }
        grapnel_receiver_free(s.receiver);
        request_free(&s.request);
    }
}

static void a_receiver_without_a_store_says_so(void **state)
{
    int64_t now_s = scenario_now_s();
    struct grapnel_receiver *r = receiver(scenario_key(), &now_s);
    struct grapnel_missing_list list = {0};
    struct grapnel_error error;
    struct grapnel_event e = {.id = "evt_1"};

    (void)state;
    assert_int_equal(grapnel_process(r, &e, NULL, NULL, NULL, &error),
                     GRAPNEL_INVALID);
    assert_non_null(strstr(error.text, "no store"));
    assert_int_equal(grapnel_check(r, &e, NULL, NULL, NULL), GRAPNEL_INVALID);
    assert_int_equal(grapnel_missing(r, 0, &list, NULL), GRAPNEL_INVALID);
    assert_int_equal(grapnel_forget(r, NULL), GRAPNEL_INVALID);
    grapnel_receiver_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request),
        cmocka_unit_test(fields_of_an_event),
        cmocka_unit_test(a_type_of_the_clock_is_decoded),
        cmocka_unit_test(wrong_secrets_are_refused_at_the_start),
        cmocka_unit_test(a_public_key_is_never_an_hmac_key),
        cmocka_unit_test(hundreds_of_signatures_are_refused),
        cmocka_unit_test(every_changed_bit_is_found),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(a_request_without_anything_is_refused),
        cmocka_unit_test(missing_and_repeated_headers_are_refused),
        cmocka_unit_test(threads_share_a_receiver),
        cmocka_unit_test(a_receiver_without_a_store_says_so),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    vectors_close();
    return failed;
}
