/* Tests of the samples of `grapnel send`: the pipeline reads them as the profile says.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "ask.h"
#include "config.h"
#include "headers.h"
#include "request_summary.h"
#include "sample.h"
#include "signature.h"
#include "table.h"
#include "timeline.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char yaml[] =
    "state_dir: s\n"
    "run_dir: r\n"
    "sources:\n"
    "  - {name: plane, provider: plane, secrets: [plane_wh_x]}\n"
    "  - name: ledger\n"
    "    provider: custom\n"
    "    secrets: [k]\n"
    "    verify: {scheme: hmac-sha256, header: X-Signature, form: plain, "
    "prefix: \"sha256=\", encoding: hex, secret_encoding: raw, "
    "signed: \"{ts}.{body}\", time: {from: \"header:X-Time\", unit: s}}\n"
    "    id: header:X-Event-Id\n"
    "    type: json:/type\n"
    "    workspace: json:/account/a~1b\n"
    "endpoints:\n"
    "  - {name: demo, url: \"http://127.0.0.1:1/\", allow_private: true}\n";

static struct settings *settings;

static int load(void **state)
{
    char path[] = "/tmp/grapnel-test-XXXXXX";
    struct buf errors;
    FILE *f = fdopen(mkstemp(path), "w");

    (void)state;
    fputs(yaml, f);
    fclose(f);
    buf_init(&errors, 10000);
    settings = settings_load(path, &errors);
    if (!settings)
        print_message("%s", errors.data);
    buf_fini(&errors);
    unlink(path);
    return settings ? 0 : 1;
}

static int unload(void **state)
{
    (void)state;
    settings_free(settings);
    return 0;
}

static void make(struct event_sample *s, const char *source, const char *type,
                 const char *workspace, const char *body)
{
    const struct source *from = settings_source(settings, source);
    struct sample_options w = {.type = type,
                               .workspace = workspace,
                               .uuid = "u-1",
                               .n = 1,
                               .now_ms = 1700000000999,
                               .has_body = body != NULL,
                               .given = {body, body ? strlen(body) : 0}};
    char why[200];

    assert_int_equal(sample_make(s, from, &w, why), GR_OK);
    assert_int_equal(sample_sign(s, from, NULL, why), GR_OK);
}

static void is_taken_for(const struct event_sample *s, const char *source,
                         const char *id, const char *type,
                         const char *workspace)
{
    struct request_summary f;

    request_summary_read(&f, settings_source(settings, source),
                         (struct bytes){s->headers.data, s->headers.len},
                         (struct bytes){s->body.data, s->body.len});
    assert_string_equal(f.refused, "");
    assert_string_equal(f.id.data, id);
    assert_string_equal(f.type.data, type);
    assert_string_equal(f.workspace.data, workspace);
    request_summary_fini(&f);
}

static void a_sample_for_plane_looks_like_plane_s(void **state)
{
    struct event_sample s;
    json_t *doc;

    (void)state;
    make(&s, "plane", NULL, NULL, NULL);
    is_taken_for(&s, "plane", "", "issue.updated", "demo");
    doc = json_loadb(s.body.data, s.body.len, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "event")),
                        "issue");
    assert_string_equal(json_string_value(json_object_get(doc, "action")),
                        "updated");
    assert_non_null(json_object_get(doc, "data"));
    json_decref(doc);
    sample_fini(&s);
    make(&s, "plane", "issue_comment.created", "acmé", NULL);
    is_taken_for(&s, "plane", "", "issue_comment.created", "acmé");
    assert_null(strstr(s.body.data, "é")); /* \u00e9, as Plane says it */
    sample_fini(&s);
}

static void a_custom_sample_has_its_fields_where_the_source_looks(void **state)
{
    struct event_sample s;

    (void)state;
    make(&s, "ledger", "invoice.paid", "acct_7", NULL);
    is_taken_for(&s, "ledger", "u-1", "invoice.paid", "acct_7");
    assert_non_null(strstr(s.body.data, "{\"a/b\": \"acct_7\"}"));
    sample_fini(&s);
}

static void a_given_body_is_not_changed(void **state)
{
    struct event_sample s;

    (void)state;
    make(&s, "plane", NULL, NULL,
         "{ \"event\":\"cycle\",\"action\":\"create\" }");
    assert_string_equal(s.body.data,
                        "{ \"event\":\"cycle\",\"action\":\"create\" }");
    is_taken_for(&s, "plane", "", "cycle.created", "default");
    sample_fini(&s);
}

/* Ingress's side of it, for every profile: test_profiles.c. */
static void the_time_is_where_the_source_looks(void **state)
{
    struct event_sample s;
    struct bytes ts;

    (void)state;
    make(&s, "ledger", NULL, NULL, NULL);
    assert_true(headers_get((struct bytes){s.headers.data, s.headers.len},
                            "x-time", &ts, NULL));
    assert_int_equal(ts.n, 10);
    assert_memory_equal(ts.p, "1700000000", 10);
    sample_fini(&s);
}

static void dedupe_keys_are_those_of_the_profile(void **state)
{
    const struct source *source = settings_source(settings, "plane");
    struct bytes headers, body;
    struct event_sample s;
    struct request_summary f;
    json_t *keys, *key;

    (void)state;
    make(&s, "plane", NULL, NULL, "{}");
    headers = (struct bytes){s.headers.data, s.headers.len};
    body = (struct bytes){s.body.data, s.body.len};
    request_summary_read(&f, source, headers, body);
    keys = request_summary_dedupe(&f, source, headers, body);
    assert_int_equal(json_array_size(keys), 1);
    key = json_object_get(json_array_get(keys, 0), "keys");
    assert_string_equal(json_string_value(json_object_get(key, "source")),
                        "plane");
    assert_string_equal(
        json_string_value(json_object_get(key, "body_sha256")),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    json_decref(keys);
    request_summary_fini(&f);
    sample_fini(&s);
}

/* ---- what people see ---- */

static void strangers_text_cannot_drive_a_terminal(void **state)
{
    char *safe = harmless("a\033[2Jb\rc\xc2\x9b"
                          "1mé\x7f");

    (void)state;
    assert_string_equal(safe, "a?[2Jb?c??1mé?");
    assert_int_equal(text_width("é→x"), 3);
    free(safe);
}

static void amounts_are_printed_briefly(void **state)
{
    char out[32];

    (void)state;
    assert_string_equal(human_bytes(0, out), "0 B");
    assert_string_equal(human_bytes(1536, out), "1.5 KiB");
    assert_string_equal(human_bytes(50LL << 30, out), "50 GiB");
    assert_string_equal(human_ms(7, out), "7ms");
    assert_string_equal(human_ms(61000, out), "1m 1s");
    assert_string_equal(human_ms(3600000, out), "1h");
    assert_string_equal(human_ms(90000000, out), "1d 1h");
}

static void timelines_are_merged_by_time(void **state)
{
    json_t *all = json_array(), *a, *b;

    (void)state;
    a = json_loads("{\"timeline\":[{\"at\":\"2026-01-01T00:00:02.000Z\","
                   "\"what\":\"c\"},{\"at\":\"2026-01-01T00:00:01.000Z\","
                   "\"what\":\"a\"}]}",
                   0, NULL);
    b = json_loads("{\"timeline\":[{\"at\":\"2026-01-01T00:00:01.000Z\","
                   "\"what\":\"b\"}]}",
                   0, NULL);
    timeline_add(all, a);
    timeline_add(all, b);
    timeline_add(all, NULL);
    all = timeline_sorted(all);
    assert_int_equal(json_array_size(all), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_string_value(json_object_get(
                             json_array_get(all, i), "what"))[0],
                         "abc"[i]);
    json_decref(all);
    json_decref(a);
    json_decref(b);
}

/* An attempt that the sequencer has not heard of is told by its deliverer. */
static void attempts_are_shown_once(void **state)
{
    json_t *event, *reply, *all = json_array();

    (void)state;
    event = json_loads("{\"deliveries\":[{\"endpoint\":\"crm\",\"attempts\":["
                       "{\"n\":1,\"at\":\"t1\"}]}]}",
                       0, NULL);
    reply = json_loads(
        "{\"attempts\":["
        "{\"endpoint\":\"crm\",\"n\":1,\"at\":\"t1\",\"outcome\":\"retrying\"},"
        "{\"endpoint\":\"crm\",\"n\":2,\"at\":\"t2\",\"outcome\":\"retrying\","
        "\"error\":\"responded 503\",\"deliverer\":\"deliverer-1\"}]}",
        0, NULL);
    timeline_add_attempts(all, event, reply);
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(all, 0), "what")),
        "attempt 2 at crm: retrying, responded 503");
    json_array_clear(all);
    timeline_add_attempts(all, NULL, reply);
    assert_int_equal(json_array_size(all), 2);
    json_decref(all);
    json_decref(event);
    json_decref(reply);
}

static void processes_are_shown_in_pipeline_order(void **state)
{
    (void)state;
    assert_true(process_rank("ingress-2") < process_rank("sequencer"));
    assert_true(process_rank("sequencer") < process_rank("deliverer-1"));
    assert_true(process_rank("deliverer-10") < process_rank("dlqd"));
    assert_true(process_rank("dlqd") < process_rank("ingresso"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_for_plane_looks_like_plane_s),
        cmocka_unit_test(a_custom_sample_has_its_fields_where_the_source_looks),
        cmocka_unit_test(a_given_body_is_not_changed),
        cmocka_unit_test(the_time_is_where_the_source_looks),
        cmocka_unit_test(dedupe_keys_are_those_of_the_profile),
        cmocka_unit_test(strangers_text_cannot_drive_a_terminal),
        cmocka_unit_test(amounts_are_printed_briefly),
        cmocka_unit_test(timelines_are_merged_by_time),
        cmocka_unit_test(attempts_are_shown_once),
        cmocka_unit_test(processes_are_shown_in_pipeline_order),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
