/* Tests of requests as `grapnel send` makes them for each profile, changed in every way
 * that matters. P7.
 * grapnel-links: ctl ingress */
#include "clock.h"
#include "config.h"
#include "headers.h"
#include "keypair.h"
#include "profile.h"
#include "sample.h"
#include "signature.h"
#include "verify.h"
#include <openssl/evp.h>
#include <strings.h>

#include "configured.h"

#define OFF_MS  (301 * 1000LL)
#define ONE     "b25lIGtleSBvZiB0d2VudHktZm91ciBieXRlcw=="
#define ANOTHER "YW5vdGhlciBrZXksIG5vdCB0aGUgc2FtZSBvbmU="

/* One profile, its source with two secrets of which the second signs, and a
 * request of it. */
struct trial {
    const char *provider;
    const struct source *source;
    const struct verify *v;
    struct settings *settings;
    EVP_PKEY *key;
    const char *workspace; /* that is asked for; NULL: the example's own */
    struct event_sample sample;
    struct buf headers; /* what is sent, in the end; with :query */
    int64_t now_ms;
    int secret; /* that fitted */
};

static char *public_of(const struct source *source, EVP_PKEY *key)
{
    struct buf out;

    buf_init(&out, 10000);
    assert_int_equal(keypair_public(source, key, &out), GR_OK);
    return buf_take(&out);
}

/* By the profile's own words: how its keys are encoded. */
static void open_trial(struct trial *t, const char *provider)
{
    const struct source *probe = profile_source(profile_find(provider));
    char *one = gr_strdup(ONE), *another = gr_strdup(ANOTHER);
    const char *secrets[] = {another, one, NULL};
    char why[200];
    bool fresh;

    *t = (struct trial){.provider = provider, .now_ms = NOW_MS};
    if (sample_needs_key(probe)) {
        EVP_PKEY *other = keypair_open(probe, NULL, &fresh, why);

        t->key = keypair_open(probe, NULL, &fresh, why);
        free(one);
        free(another);
        secrets[0] = another = public_of(probe, other);
        secrets[1] = one = public_of(probe, t->key);
        EVP_PKEY_free(other);
    }
    t->settings = configured(provider, secrets, URL, "wh-1");
    t->source = &t->settings->sources[0];
    t->v = &t->source->verify;
    free(one);
    free(another);
}

static void close_trial(struct trial *t)
{
    settings_free(t->settings);
    EVP_PKEY_free(t->key);
}

/* Signed by the second secret. `body` NULL: one like the provider's. */
static void make(struct trial *t, struct bytes body, bool given)
{
    struct source signer = *t->source;
    struct sample_options w = {.uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7",
                               .n = 1,
                               .now_ms = NOW_MS,
                               .workspace = t->workspace,
                               .has_body = given,
                               .given = body};
    char why[200] = "";
    char *secrets[] = {t->source->secrets.items[1]};

    signer.secrets = (struct string_list){secrets, 1};
    signer.keys = &t->source->keys[1];
    if (sample_make(&t->sample, t->source, &w, why) != GR_OK ||
        sample_sign(&t->sample, &signer, t->key, why) != GR_OK)
        fail_msg("%s: %s", t->provider, why);
    buf_init(&t->headers, 1 << 20);
    if (t->sample.query.len)
        headers_put(&t->headers, ":query", held(&t->sample.query));
    buf_put(&t->headers, t->sample.headers.data, t->sample.headers.len);
}

static void unmake(struct trial *t)
{
    sample_fini(&t->sample);
    buf_fini(&t->headers);
}

static enum verification judged(struct trial *t)
{
    t->secret = -1;
    return verify(t->source, held(&t->headers), held(&t->sample.body),
                  t->now_ms, &t->secret);
}

#define EXPECT(t, cond, what)                                                \
    do {                                                                     \
        enum verification got_ = judged(t);                                  \
        if (!(cond))                                                         \
            fail_msg("%s, %s: %s", (t)->provider, what, verdict_name(got_)); \
    } while (0)
#define HOLDS(t, what)      EXPECT(t, got_ == VERDICT_HOLDS, what)
#define IS_REFUSED(t, what) EXPECT(t, got_ != VERDICT_HOLDS, what)
#define IS(t, v, what)      EXPECT(t, got_ == (v), what)

typedef void trial_fn(struct trial *t);

static void for_each_profile(trial_fn *fn)
{
    for (size_t i = 0; profile_name(i); i++) {
        struct trial t;

        if (profile_is_custom(profile_find(profile_name(i))))
            continue;
        open_trial(&t, profile_name(i));
        fn(&t);
        close_trial(&t);
    }
}

/* Put other headers in place of those there. `name` NULL: all. The value of
 * each is given by `change` (which may return NULL: leave the header out). */
typedef const char *change_fn(const char *value, char out[4096]);

static bool is_name(struct bytes name, const char *text_)
{
    return !text_ ||
           (name.n == strlen(text_) && strncasecmp(name.p, text_, name.n) == 0);
}

static void change(struct trial *t, const char *which, change_fn *fn,
                   bool again)
{
    struct bytes old = held(&t->headers), name, value;
    struct buf made;
    size_t at = 0;

    buf_init(&made, 1 << 20);
    while (headers_next(old, &at, &name, &value)) {
        char *n = gr_strndup(name.p, name.n), *v = gr_strndup(value.p, value.n);
        char capacity[4096];
        const char *to = is_name(name, which) ? fn(v, capacity) : v;

        if (to)
            headers_put(&made, n, text(to));
        if (again && is_name(name, which))
            headers_put(&made, n, value);
        free(n);
        free(v);
    }
    buf_fini(&t->headers);
    t->headers = made;
}

static const char *gone(const char *value, char out[4096])
{
    (void)value, (void)out;
    return NULL;
}

static const char *same(const char *value, char out[4096])
{
    snprintf(out, 4096, "%s", value);
    return out;
}

static const char *empty(const char *value, char out[4096])
{
    (void)value;
    strcpy(out, "  ");
    return out;
}

static const char *shorter(const char *value, char out[4096])
{
    snprintf(out, 4096, "%.*s", (int)strlen(value) - 4, value);
    return out;
}

static const char *longer(const char *value, char out[4096])
{
    snprintf(out, 4096, "%s%.4s", value, value + strlen(value) - 4);
    return out;
}

static const char *signature_header(const struct trial *t)
{
    return t->v->headers.count ? t->v->headers.items[0] : NULL;
}

/* ---- what each must do ---- */

static void good(struct trial *t)
{
    make(t, text(""), false);
    HOLDS(t, "as it was sent");
    assert_int_equal(t->secret, 1); /* of the two: rotation */
    unmake(t);
}

static void every_profile_accepts_its_own_signature(void **state)
{
    (void)state;
    for_each_profile(good);
}

/* GitLab's token signs nothing, and of Mailgun's only a time and a token are
 * signed: that is theirs, and docs/PROVIDERS.md says so. */
static bool signs_the_body(const struct trial *t)
{
    return t->v->scheme != SCHEME_SHARED_TOKEN &&
           !signature_signs(t->v->signed_content, "token");
}

static void tampered(struct trial *t)
{
    if (!signs_the_body(t))
        return;
    make(t, text(""), false);
    t->sample.body.data[t->sample.body.len / 2] ^= 1;
    IS(t, VERDICT_SIGNATURE_MISMATCH, "a byte of the body changed");
    t->sample.body.data[t->sample.body.len / 2] ^= 1;
    buf_puts(&t->sample.body, t->sample.body.data[0] == '{' ? "\n" : "&z=1");
    IS(t, VERDICT_SIGNATURE_MISMATCH, "a line behind the body");
    t->sample.body.len -= 10;
    IS_REFUSED(t, "the body's end gone");
    unmake(t);
}

static void a_body_that_was_changed_is_refused(void **state)
{
    (void)state;
    for_each_profile(tampered);
}

static void another_key(struct trial *t)
{
    struct source other = *t->source;
    const struct source *was = t->source;

    make(t, text(""), false);
    other.secrets.count = 1; /* only that which did not sign */
    t->source = &other;
    IS(t, VERDICT_SIGNATURE_MISMATCH, "by another secret");
    t->source = was;
    unmake(t);
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    for_each_profile(another_key);
}

static bool has_time(const struct trial *t)
{
    return (t->v->time.kind != EXPR_NONE || t->v->form.kind == FORM_KV) &&
           t->v->past_ms != TOLERANCE_NONE;
}

static void off_in_time(struct trial *t)
{
    int64_t off = t->v->past_ms ? t->v->past_ms + 1000 : OFF_MS;
    int64_t ahead = t->v->future_ms ? t->v->future_ms + 1000 : OFF_MS;

    make(t, text(""), false);
    t->now_ms = NOW_MS + off - 1000;
    HOLDS(t, "just young enough");
    t->now_ms = NOW_MS + off;
    if (has_time(t))
        IS(t, VERDICT_TIMESTAMP_STALE, "too old");
    else
        HOLDS(t, "without a time");
    t->now_ms = NOW_MS - ahead + 1000;
    HOLDS(t, "just not too far ahead");
    t->now_ms = NOW_MS - ahead;
    if (has_time(t))
        IS(t, VERDICT_TIMESTAMP_STALE, "too far ahead");
    t->now_ms = NOW_MS;
    unmake(t);
}

static void stale_and_future_times_are_refused(void **state)
{
    (void)state;
    for_each_profile(off_in_time);
}

static void without(struct trial *t, const char *name,
                    enum verification missing, enum verification malformed)
{
    make(t, text(""), false);
    change(t, name, gone, false);
    IS(t, missing, "a header that is missing");
    unmake(t);
    make(t, text(""), false);
    change(t, name, empty, false);
    IS(t, missing, "a header that is empty");
    unmake(t);
    make(t, text(""), false);
    change(t, name, same, true);
    IS(t, malformed, "a header that came twice");
    unmake(t);
}

static void headers_gone_and_doubled(struct trial *t)
{
    const struct expr *id = t->v->id.kind != EXPR_NONE ? &t->v->id
                                                       : &t->source->id;

    if (signature_header(t))
        without(t, signature_header(t), VERDICT_SIGNATURE_MISSING,
                VERDICT_SIGNATURE_MALFORMED);
    if (t->v->time.kind == EXPR_HEADER)
        without(t, t->v->time.text, VERDICT_TIMESTAMP_MISSING,
                VERDICT_TIMESTAMP_MALFORMED);
    if (signature_signs(t->v->signed_content, "id"))
        without(t, id->text, VERDICT_ID_MISSING, VERDICT_ID_MALFORMED);
}

static void missing_and_repeated_headers_are_refused(void **state)
{
    (void)state;
    for_each_profile(headers_gone_and_doubled);
}

static void in_capitals(struct trial *t)
{
    struct bytes name, value;
    struct buf made;
    size_t at = 0;

    make(t, text(""), false);
    buf_init(&made, 1 << 20);
    while (headers_next(held(&t->headers), &at, &name, &value)) {
        char *n = gr_strndup(name.p, name.n);

        for (char *p = n; *p; p++)
            *p = *p >= 'a' && *p <= 'z' && *n != ':' ? (char)(*p - 32) : *p;
        headers_put(&made, n, value);
        free(n);
    }
    buf_fini(&t->headers);
    t->headers = made;
    HOLDS(t, "names of headers in capitals");
    unmake(t);
}

static void the_letter_case_of_headers_does_not_count(void **state)
{
    (void)state;
    for_each_profile(in_capitals);
}

static void of_other_length(struct trial *t)
{
    if (!signature_header(t))
        return;
    make(t, text(""), false);
    change(t, signature_header(t), shorter, false);
    IS_REFUSED(t, "a truncated signature");
    unmake(t);
    make(t, text(""), false);
    change(t, signature_header(t), longer, false);
    IS_REFUSED(t, "an over-long signature");
    unmake(t);
}

static void a_signature_of_another_length_is_refused(void **state)
{
    (void)state;
    for_each_profile(of_other_length);
}

static void with_body(struct trial *t, struct bytes body, const char *what)
{
    make(t, body, true);
    HOLDS(t, what);
    unmake(t);
}

/* Where the body itself has the time or the signature it can't be just any. */
static void odd_bodies(struct trial *t)
{
    if (t->v->time.kind == EXPR_JSON)
        return;
    if (!t->v->refuses_empty_body)
        with_body(t, text(""), "an empty body");
    with_body(t, text("{\"name\":\"caf\xc3\xa9 \xe2\x99\xa5\"}"), "UTF-8");
    with_body(t, (struct bytes){"x=\0\xff\xfe\r\n", 7}, "bytes of any kind");
    with_body(t, text("[]\r\n"), "a line's end behind it");
}

static void any_bytes_can_be_a_body(void **state)
{
    (void)state;
    for_each_profile(odd_bodies);
}

static const struct trial *now_trial;

/* The right one between others, as a rotation sends them. */
static const char *among_others(const char *value, char out[4096])
{
    const struct form *f = &now_trial->v->form;
    const char *first = value, *prefix = f->prefix ? f->prefix : "";

    if (f->kind == FORM_KV) {
        first = strchr(value, f->separator) + 1;
        snprintf(out, 4096, "%.*s%s=00%cother=1%c%s%c%s=%064d",
                 (int)(first - value), value, f->sig_key, f->separator,
                 f->separator, first, f->separator, f->sig_key, 0);
    } else {
        snprintf(out, 4096, "%sAAAA%cv9,x%c%s%c%s%064d", prefix, f->separator,
                 f->separator, first, f->separator, prefix, 0);
    }
    return out;
}

/* Too many of them to try. */
static const char *among_many(const char *value, char out[4096])
{
    const struct form *f = &now_trial->v->form;
    const char *first = f->kind == FORM_KV ? strchr(value, f->separator) + 1
                                           : value;
    size_t n = (size_t)snprintf(out, 4096, "%s", value);

    for (int i = 0; i < CANDIDATES_MAX; i++)
        n += (size_t)snprintf(out + n, 4096 - n, "%c%s", f->separator, first);
    return out;
}

static void several(struct trial *t)
{
    if (t->v->form.kind == FORM_PLAIN)
        return;
    now_trial = t;
    make(t, text(""), false);
    change(t, signature_header(t), among_others, false);
    HOLDS(t, "one that is right among several");
    unmake(t);
    make(t, text(""), false);
    change(t, signature_header(t), among_many, false);
    IS(t, VERDICT_SIGNATURE_MALFORMED, "more than we try");
    unmake(t);
}

/* Square's libraries refuse a request without a body, whatever its signature. */
static void without_body(struct trial *t)
{
    if (strcmp(t->provider, "square") != 0)
        return;
    make(t, text(""), true);
    IS(t, VERDICT_BODY_MISSING, "an empty body that is signed");
    unmake(t);
}

static void square_refuses_an_empty_body(void **state)
{
    (void)state;
    for_each_profile(without_body);
}

static void one_of_several_signatures_is_enough(void **state)
{
    (void)state;
    for_each_profile(several);
}

/* ---- and what it is then taken for ---- */

static void understood(struct trial *t)
{
    struct buf id, type, workspace;
    struct subject s = {.source = "s", .provider = t->provider};
    const char *why;
    char *last;

    t->workspace = t->source->workspace.kind == EXPR_NONE ? NULL : "demo";
    make(t, text(""), false);
    s.headers = held(&t->headers);
    s.body = held(&t->sample.body);
    if (t->source->batch) { /* [ … ] */
        s.body.p = (const char *)s.body.p + 1;
        s.body.n -= 2;
    }
    buf_init(&id, 4096);
    buf_init(&type, 4096);
    buf_init(&workspace, 4096);
    assert_int_equal(profile_event_id(t->source, &s, &id, &why), GR_OK);
    assert_int_equal(profile_type(t->source, &s, &type, &why), GR_OK);
    assert_int_equal(profile_workspace(t->source, &s, &workspace, &why), GR_OK);
    if (t->source->id.kind != EXPR_NONE)
        assert_string_equal(id.data, "7c9e6679-7425-40de-944b-e07fc1f90ae7");
    assert_string_not_equal(type.data, "unknown");
    assert_string_equal(workspace.data, t->source->workspace.kind == EXPR_NONE
                                            ? "default"
                                            : "demo");
    last = type.data;
    if (t->source->action.kind != EXPR_NONE)
        for (; *last; last++)
            assert_false(*last >= 'A' && *last <= 'Z');
    subject_fini(&s);
    buf_fini(&id);
    buf_fini(&type);
    buf_fini(&workspace);
    unmake(t);
}

static void every_profile_finds_id_type_and_workspace(void **state)
{
    (void)state;
    for_each_profile(understood);
}

/* ---- whatever comes ---- */

static unsigned seed = 1;

static unsigned any(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % below;
}

/* A value of a header with a few of its bytes changed, cut or doubled. */
static const char *garbled(const char *value, char out_[4096])
{
    static const char odd[] = ",;= \t{}%:/+-\x01\xff\xc3vt0Az";
    size_t n = (size_t)snprintf(out_, 2000, "%s", value);

    if (n > 1999)
        n = 1999;
    for (unsigned k = any(4); k; k--)
        if (n)
            out_[any((unsigned)n)] = odd[any(sizeof odd - 1)];
    if (any(4) == 0)
        out_[any((unsigned)n + 1)] = 0;
    if (any(4) == 0 && strlen(out_) < 1000) {
        char *copy = gr_strdup(out_);

        strcat(out_, copy + any((unsigned)strlen(copy) + 1));
        free(copy);
    }
    return any(20) ? out_ : NULL;
}

static void garble(struct trial *t)
{
    for (int i = 0; i < 200; i++) {
        make(t, text(""), false);
        change(t, NULL, garbled, any(8) == 0);
        if (t->sample.body.len && any(2))
            t->sample.body.data[any((unsigned)t->sample.body.len)] = (char)any(
                256);
        if (any(10) == 0)
            t->sample.body.len = any((unsigned)t->sample.body.len + 1);
        (void)judged(t); /* the sanitizers are the judges */
        unmake(t);
    }
}

static void random_requests_are_judged(void **state)
{
    (void)state;
    for_each_profile(garble);
}

static bool key_has_only(const struct dedupe_key *key, const struct source *s)
{
    for (size_t i = 0; i < key->count; i++) {
        const struct expr *e = &key->parts[i];

        /* an unsigned header changes nothing for who sends it again */
        if (e->kind == EXPR_ID && s->id.kind == EXPR_HEADER &&
            !signature_signs(s->verify.signed_content, "id"))
            return false;
    }
    return true;
}

/* Who has seen a request can send it again under another delivery id, where
 * that is not signed: each profile that signs has a key without it. */
static void has_a_key_that_is_signed(struct trial *t)
{
    bool any = t->v->scheme == SCHEME_SHARED_TOKEN;

    for (size_t i = 0; i < t->source->dedupe.count; i++)
        any |= key_has_only(&t->source->dedupe.keys[i], t->source);
    if (!any)
        fail_msg("%s: every key rests on an unsigned id", t->provider);
    /* And keeps it for longer than a request is accepted, from the first time
     * that it can come to the last. */
    if (has_time(t))
        assert_true(t->source->dedupe.ttl_ms >
                    (t->v->past_ms ? t->v->past_ms : OFF_MS) +
                        (t->v->future_ms ? t->v->future_ms : OFF_MS));
}

static void a_replay_under_a_new_id_has_an_old_key(void **state)
{
    (void)state;
    for_each_profile(has_a_key_that_is_signed);
}

/* ---- URLs ---- */

static void the_default_port_may_be_written_or_not(void **state)
{
    static const char *const urls[] = {URL,
                                       "https://hooks.example.com:443/in/s"};
    static const char *const wrong[] = {"https://hooks.example.com:444/in/s",
                                        "http://hooks.example.com:443/in/s"};
    const char *secrets[] = {"k", NULL};
    struct trial t = {.provider = "square", .now_ms = NOW_MS};
    char why[200];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct settings *sender = configured("square", secrets, urls[i], NULL);
        struct sample_options w = {.uuid = "u", .now_ms = NOW_MS};

        assert_int_equal(sample_make(&t.sample, &sender->sources[0], &w, why),
                         GR_OK);
        assert_int_equal(sample_sign(&t.sample, &sender->sources[0], NULL, why),
                         GR_OK);
        buf_init(&t.headers, 1 << 20);
        buf_put(&t.headers, t.sample.headers.data, t.sample.headers.len);
        for (size_t k = 0; k < 2; k++) {
            t.settings = configured("square", secrets, urls[k], NULL);
            t.source = &t.settings->sources[0];
            HOLDS(&t, urls[k]);
            settings_free(t.settings);
            t.settings = configured("square", secrets, wrong[k], NULL);
            t.source = &t.settings->sources[0];
            IS(&t, VERDICT_SIGNATURE_MISMATCH, wrong[k]);
            settings_free(t.settings);
        }
        unmake(&t);
        settings_free(sender);
    }
}

static int open_all(void **state)
{
    (void)state;
    clock_test_set(NOW_MS);
    return !mkdtemp(folder) || chdir(folder);
}

static int close_all(void **state)
{
    (void)state;
    unlink("g.yaml");
    return chdir("/") || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_accepts_its_own_signature),
        cmocka_unit_test(a_body_that_was_changed_is_refused),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(stale_and_future_times_are_refused),
        cmocka_unit_test(missing_and_repeated_headers_are_refused),
        cmocka_unit_test(the_letter_case_of_headers_does_not_count),
        cmocka_unit_test(a_signature_of_another_length_is_refused),
        cmocka_unit_test(any_bytes_can_be_a_body),
        cmocka_unit_test(square_refuses_an_empty_body),
        cmocka_unit_test(one_of_several_signatures_is_enough),
        cmocka_unit_test(every_profile_finds_id_type_and_workspace),
        cmocka_unit_test(random_requests_are_judged),
        cmocka_unit_test(a_replay_under_a_new_id_has_an_old_key),
        cmocka_unit_test(the_default_port_may_be_written_or_not),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
