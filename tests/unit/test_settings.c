/* settings: what grapnel.yaml may say. The example is the one of the users'
 * manual, as far as this version goes.
 *
 * GRAPNEL_WRITE_DOCS=1 test_settings writes docs/CONFIGURATION.md anew. */
#include "config.h"
#include "profile.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ERRORS_MAX_BYTES = 1 << 20, MUTATIONS = 3000 };

static const char example[] =
    "state_dir: state\n"
    "run_dir: run\n"
    "log: {level: info, format: text}\n"
    "shutdown_grace: 20s\n"
    "ingress:\n"
    "  listen: 127.0.0.1:8080\n"
    "  max_body: 1MiB\n"
    "  max_connections: 4096\n"
    "  read_timeout: 10s\n"
    "  archive: {keep: 30d, max_size: 50GiB}\n"
    "sources:\n"
    "  - name: plane\n"
    "    provider: plane\n"
    "    secrets: [\"${GRT_SECRET}\"]\n"
    "  - name: ledger\n"
    "    provider: custom\n"
    "    verify: {scheme: hmac-sha256, header: X-Signature, form: plain,"
    " prefix: \"sha256=\", encoding: hex, secret_encoding: raw,"
    " signed: \"{ts}.{body}\", time: {from: \"header:X-Time\", unit: s}}\n"
    "    secrets: [\"file:ledger.key\"]\n"
    "    clock_skew: 5m\n"
    "    id: header:X-Event-Id\n"
    "    type: json:/type\n"
    "    workspace: json:/account/id\n"
    "    dedupe: {keys: [[source, id]], ttl: 7d}\n"
    "endpoint_defaults: {timeout: 15s, connect_timeout: 5s,"
    " max_in_flight: 32, retry_policy: default}\n"
    "endpoints:\n"
    "  - name: crm\n"
    "    url: https://crm.example.com/hooks\n"
    "    types: [\"issue.*\"]\n"
    "    sources: [plane]\n"
    "    workspaces: [\"*\"]\n"
    "    signing_secrets: [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n"
    "    method: POST\n"
    "    headers: {Authorization: \"Bearer ${GRT_TOKEN}\"}\n"
    "    forward_headers: [X-Request-Id]\n"
    "    allow_private: false\n"
    "    enabled: true\n"
    "routes:\n"
    "  - {sources: [plane], types: [\"project.*\"], endpoints: [crm]}\n"
    "retry_policies:\n"
    "  - {name: default, backoff: exponential, first_wait: 5s, factor: 3,"
    " max_wait: 6h, jitter: full, max_attempts: 12, max_duration: 24h,"
    " retry_on: [network, 408, 425, 429, 5xx], respect_retry_after: true}\n"
    "  - {name: omise, backoff: schedule, schedule: [1m, 5m, 15m, 1h, 3h, 6h,"
    " 12h, 24h, 48h], repeat_last: true, jitter: none, max_duration: 7d,"
    " retry_on: [network, 4xx, 5xx], timeout: 10s}\n"
    "history: {keep: 30d}\n"
    "dlq: {keep: 30d}\n"
    "metrics: {interval: 5s}\n";

static char folder[] = "/tmp/grapnel-test-settings-XXXXXX";

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    assert_int_not_equal(fputs(text, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    setenv("GRT_SECRET", "plane_wh_1", 1);
    setenv("GRT_TOKEN", "t0ken", 1);
    write_file("ledger.key", "ledger-s3cret\n");
    return mkdir("conf.d", 0700);
}

static int remove_folder(void **state)
{
    static const char *const files[] = {
        "g.yaml",        "ledger.key",      "key2",      "conf.d/a.yaml",
        "conf.d/b.yaml", "conf.d/.#c.yaml", "conf.d/key"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        unlink(files[i]);
    return rmdir("conf.d") || chdir("/") || rmdir(folder);
}

/* Errors name files with their whole path; the tests compare what is behind the
 * test's own folder. */
static void drop_folder(struct buf *errors)
{
    char whole[PATH_MAX], *at = errors->data;
    size_t n;

    assert_non_null(realpath(folder, whole));
    n = strlen(whole) + 1;
    while (at && (at = strstr(at, whole)))
        memmove(at, at + n, strlen(at + n) + 1);
}

static struct settings *load(const char *text, struct buf *errors)
{
    struct settings *s;

    write_file("g.yaml", text);
    buf_init(errors, ERRORS_MAX_BYTES);
    s = settings_load("g.yaml", errors);
    drop_folder(errors);
    return s;
}

static struct settings *load_good(const char *text)
{
    struct buf errors;
    struct settings *s = load(text, &errors);

    if (!s)
        fail_msg("%s\ngives: %s", text, errors.data);
    buf_fini(&errors);
    return s;
}

static void expect_good(const char *text)
{
    settings_free(load_good(text));
}

static void expect_error(const char *text, const char *error)
{
    struct buf errors;
    struct settings *s = load(text, &errors);

    if (s || !strstr(errors.data, error))
        fail_msg("%s\ngives \"%s\"\nnot   \"%s\"", text, s ? "" : errors.data,
                 error);
    settings_free(s);
    buf_fini(&errors);
}

/* ---- what is read ---- */

static void check_custom_source(const struct source *s)
{
    assert_string_equal(s->verify.headers.items[0], "X-Signature");
    assert_string_equal(s->verify.prefix, "sha256=");
    assert_string_equal(s->verify.signed_content, "{ts}.{body}");
    assert_int_equal(s->verify.time.kind, EXPR_HEADER);
    assert_string_equal(s->verify.time.text, "X-Time");
    assert_int_equal(s->verify.secret_encoding, KEY_RAW);
    assert_string_equal(s->secrets.items[0], "ledger-s3cret");
    assert_int_equal(s->clock_skew_ms, 300000);
    assert_int_equal(s->dedupe.ttl_ms, 7 * 86400000LL);
    assert_int_equal(s->action.kind, EXPR_NONE);
}

static void check_endpoint(const struct endpoint_settings *e)
{
    assert_string_equal(e->headers.items[0].value, "Bearer t0ken");
    assert_string_equal(e->method, "POST");
    assert_int_equal(e->timeout_ms, 15000);
    assert_int_equal(e->connect_timeout_ms, 5000);
    assert_int_equal(e->max_in_flight, 32);
    assert_string_equal(e->policy->name, "default");
    assert_true(e->enabled);
    assert_false(e->allow_private.all);
}

static void the_example_is_read(void **state)
{
    struct settings *s = load_good(example);
    char *run = gr_printf("%s/run", folder);

    (void)state;
    assert_string_equal(s->run_dir, run);
    assert_string_equal(s->ingress.host, "127.0.0.1");
    assert_int_equal(s->ingress.port, 8080);
    assert_int_equal(s->ingress.max_body_bytes, 1 << 20);
    assert_int_equal(s->ingress.archive_max_bytes, 50LL << 30);
    assert_string_equal(settings_source(s, "plane")->secrets.items[0],
                        "plane_wh_1");
    check_custom_source(settings_source(s, "ledger"));
    check_endpoint(settings_endpoint(s, "crm"));
    assert_int_equal(s->route_count, 1);
    assert_null(settings_source(s, "none"));
    assert_null(settings_endpoint(s, "none"));
    settings_free(s);
    free(run);
}

static void the_example_has_the_defaults(void **state)
{
    struct settings *all = load_good(example), *few;

    (void)state;
    few = load_good("sources: []");
    assert_int_equal(all->shutdown_grace_ms, few->shutdown_grace_ms);
    assert_string_equal(all->state_dir, few->state_dir);
    assert_memory_equal(&all->ingress.port, &few->ingress.port,
                        sizeof all->ingress -
                            offsetof(struct settings, ingress.port) +
                            offsetof(struct settings, ingress));
    assert_int_equal(all->history_keep_ms, few->history_keep_ms);
    assert_int_equal(all->dlq_keep_ms, few->dlq_keep_ms);
    assert_int_equal(all->metrics_interval_ms, few->metrics_interval_ms);
    assert_int_equal(all->defaults.timeout_ms, few->defaults.timeout_ms);
    settings_free(all);
    settings_free(few);
}

static void policies_are_built_in_and_a_declared_one_wins(void **state)
{
    static const char text[] =
        "endpoint_defaults: {retry_policy: strict, timeout: 3s}\n"
        "endpoints:\n"
        "  - {name: a, url: 'http://a/'}\n"
        "  - {name: b, url: 'http://b/', retry_policy: omise, timeout: 1s}\n"
        "  - {name: c, url: 'http://c/', retry_policy: plane}\n"
        "retry_policies: [{name: strict, first_wait: 2ms, max_attempts: 3}]\n";
    struct settings *s = load_good(text);
    const struct retry_policy *strict = s->endpoints[0].policy;
    const struct retry_policy *omise = s->endpoints[1].policy;
    const struct retry_policy *plane = s->endpoints[2].policy;

    (void)state;
    assert_int_equal(strict->first_wait_ms, 2);
    assert_int_equal(strict->max_attempts, 3);
    assert_int_equal(strict->max_duration_ms, 0);
    assert_true(strict->jitter.full);
    assert_int_equal(s->endpoints[0].timeout_ms, 3000);
    assert_int_equal(s->endpoints[1].timeout_ms, 1000);
    assert_int_equal(omise->schedule.count, 9);
    assert_int_equal(omise->schedule.ms[8], 48 * 3600 * 1000LL);
    assert_true(omise->repeat_last);
    assert_true(omise->retry_on.status[404 / 8] >> 404 % 8 & 1);
    assert_true(plane->jitter.part == 0.15);
    assert_false(plane->jitter.full);
    assert_false(plane->retry_on.status[404 / 8] >> 404 % 8 & 1);
    assert_true(plane->retry_on.status[599 / 8] >> 599 % 8 & 1);
    assert_int_equal(s->policy_count, 6);
    settings_free(s);
}

static void a_profile_fills_what_the_file_leaves_open(void **state)
{
    struct settings *s = load_good(
        "sources:\n"
        "  - {name: a, provider: plane, secrets: x}\n"
        "  - {name: b, provider: plane, secrets: x, type: 'const:t',"
        " dedupe: {ttl: 5m}}\n"
        "  - {name: c, provider: plane, secrets: x, dedupe: none}\n"
        "  - {name: d, provider: custom, secrets: x, verify: {header: X-S}}\n"
        "  - {name: e, provider: custom, secrets: x, id: 'json:/id',"
        " verify: {header: X-S}}\n");

    (void)state;
    assert_string_equal(s->sources[0].verify.headers.items[0],
                        "X-Plane-Signature");
    assert_int_equal(s->sources[0].action.kind, EXPR_JSON);
    assert_int_equal(s->sources[0].dedupe.ttl_ms, 3600000);
    /* Another type means all of it. */
    assert_int_equal(s->sources[1].action.kind, EXPR_NONE);
    assert_int_equal(s->sources[1].dedupe.ttl_ms, 300000);
    assert_int_equal(s->sources[1].dedupe.count, 1);
    assert_true(s->sources[2].dedupe.none);
    assert_true(s->sources[3].dedupe.none);
    assert_string_equal(s->sources[3].verify.signed_content, "{body}");
    assert_false(s->sources[4].dedupe.none);
    assert_int_equal(s->sources[4].dedupe.keys[0].parts[1].kind, EXPR_ID);
    settings_free(s);
}

static void private_networks_are_all_none_or_some(void **state)
{
    struct settings *s = load_good(
        "endpoints:\n"
        "  - {name: a, url: 'http://a', allow_private: true}\n"
        "  - {name: b, url: 'http://b',"
        " allow_private: [10.0.0.0/8, 'fd00::/8', 127.0.0.1]}\n"
        "  - {name: c, url: 'http://c', allow_private: 0.0.0.0/0}\n");
    const struct cidr *c = s->endpoints[1].allow_private.cidrs;

    (void)state;
    assert_true(s->endpoints[0].allow_private.all);
    assert_false(s->endpoints[1].allow_private.all);
    assert_int_equal(s->endpoints[1].allow_private.count, 3);
    assert_int_equal(c[0].prefix_bits, 104);
    assert_int_equal(c[0].address[12], 10);
    assert_int_equal(c[1].prefix_bits, 8);
    assert_int_equal(c[2].prefix_bits, 128);
    assert_int_equal(s->endpoints[2].allow_private.cidrs[0].prefix_bits, 96);
    settings_free(s);
}

/* ---- a part of the file ---- */

static const char *const run_dir_only[] = {"run_dir", NULL};
static const char *const policies_only[] = {"retry_policies", "include", NULL};

static void expect_run_dir(const char *text, const char *run_dir)
{
    char *whole = *run_dir == '/' ? gr_strdup(run_dir)
                                  : gr_printf("%s/%s", folder, run_dir);
    struct settings *s;
    struct buf errors;

    write_file("g.yaml", text);
    buf_init(&errors, ERRORS_MAX_BYTES);
    s = settings_load_part("g.yaml", run_dir_only, &errors);
    if (!s)
        fail_msg("%s\ngives: %s", text, errors.data);
    assert_string_equal(s->run_dir, whole);
    settings_free(s);
    buf_fini(&errors);
    free(whole);
}

/* What is wrong elsewhere does not matter to a program that needs run_dir. */
static void run_dir_is_found_despite_other_errors(void **state)
{
    (void)state;
    expect_run_dir("sources: [{name: a, secrets: '${GRT_UNSET}'}]", "run");
    expect_run_dir("run_dir: r1\nno_such_key: 1\nlog: {level: loud}", "r1");
    expect_run_dir("run_dir: r2\nendpoints: [\n", "r2");
    expect_run_dir("endpoints:\n- {name: 'a}\nrun_dir: r3 # here\n", "r3");
    expect_run_dir("# text\nlog: {\n}}\n\"run_dir\": \"r4\"\nx: [*]", "r4");
    expect_run_dir("secrets: [${X}]\n", "run");
    expect_run_dir("a: &d r5\nrun_dir: *d\n", "r5");
    expect_run_dir("{\"run_dir\": \"/tmp/r6\", \"bad\": 1}", "/tmp/r6");
    expect_run_dir("run_dir: r7\n--- \nrun_dir: other\n", "r7");
    expect_run_dir("run_dir: r8\nlog: !tag {}\n", "r8");
    expect_run_dir("", "run");
    setenv("GRT_RUN", "r9", 1);
    expect_run_dir("run_dir: '${GRT_RUN}'\nx: ${GRT_UNSET}", "r9");
}

static void expect_part_error(const char *text, const char *const *keys,
                              const char *error)
{
    struct buf errors;

    write_file("g.yaml", text);
    buf_init(&errors, ERRORS_MAX_BYTES);
    assert_null(settings_load_part("g.yaml", keys, &errors));
    if (!strstr(errors.data, error))
        fail_msg("%s\ngives \"%s\"\nnot   \"%s\"", text, errors.data, error);
    buf_fini(&errors);
}

static void errors_of_the_read_part_are_reported(void **state)
{
    (void)state;
    expect_part_error("log: {\n\nrun_dir: '${GRT_UNSET}'\n", run_dir_only,
                      "g.yaml:3:10: run_dir: the environment variable "
                      "GRT_UNSET is not set");
    expect_part_error("run_dir: [a]\n", run_dir_only, "g.yaml:1:10: run_dir");
    expect_part_error("{\"run_dir\": \"r\", [", run_dir_only, "not YAML");
    expect_part_error("retry_policies: [{name: a, factor: x}]", policies_only,
                      "retry_policies[0].factor");
}

static void policies_are_read_without_the_rest(void **state)
{
    struct settings *s;
    struct buf errors;

    (void)state;
    write_file("conf.d/a.yaml",
               "retry_policies: [{name: strict, max_attempts: 2}]\n"
               "sources: [{name: s1, secrets: '${GRT_UNSET}'}]\n");
    write_file("conf.d/b.yaml", "sources: [\n");
    write_file("g.yaml", "include: conf.d/*.yaml\nsources: 7\n"
                         "retry_policies: [{name: mine, max_attempts: 9}]\n");
    buf_init(&errors, ERRORS_MAX_BYTES);
    s = settings_load_part("g.yaml", policies_only, &errors);
    if (!s)
        fail_msg("%s", errors.data);
    assert_int_equal(s->policy_count, 7);
    assert_string_equal(s->policies[0].name, "mine");
    assert_int_equal(s->policies[1].max_attempts, 2);
    assert_int_equal(s->source_count, 0);
    settings_free(s);
    buf_fini(&errors);
    unlink("conf.d/a.yaml");
    unlink("conf.d/b.yaml");
}

/* ---- what is likely a mistake ---- */

static void expect_warning(const char *text, const char *warning)
{
    struct settings *s = load_good(text);

    if (warning &&
        (s->warnings.count != 1 || !strstr(s->warnings.items[0], warning)))
        fail_msg("%s\nwarns \"%s\"\nnot   \"%s\"", text,
                 s->warnings.count ? s->warnings.items[0] : "", warning);
    if (!warning && s->warnings.count)
        fail_msg("%s\nwarns \"%s\"", text, s->warnings.items[0]);
    settings_free(s);
}

static void a_private_address_without_allow_private_is_a_warning(void **state)
{
    static const char *const blocked[] = {
        "http://127.0.0.1:3000/x", "http://localhost/",  "http://a.LOCALHOST:1",
        "http://[::1]:80/",        "http://10.1.2.3/",   "http://127.1/",
        "http://2130706433/",      "http://[fd00::1]/x", "http://0.0.0.0"};
    static const char *const open[] = {"http://example.com/",
                                       "https://93.184.216.34/",
                                       "http://localhost.example.com/"};
    char *text;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(blocked); i++) {
        text = gr_printf("endpoints: [{name: a, url: '%s'}]", blocked[i]);
        expect_warning(text, "g.yaml:1:28: endpoints[0].url: warning: ");
        free(text);
        text = gr_printf("endpoints: [{name: a, url: '%s', "
                         "allow_private: true}]",
                         blocked[i]);
        expect_warning(text, NULL);
        free(text);
    }
    for (size_t i = 0; i < COUNT_OF(open); i++) {
        text = gr_printf("endpoints: [{name: a, url: '%s'}]", open[i]);
        expect_warning(text, NULL);
        free(text);
    }
    expect_warning("endpoints: [{name: a, url: 'http://10.1.2.3/', "
                   "allow_private: 10.0.0.0/8}]",
                   NULL);
    expect_warning("endpoints: [{name: a, url: 'http://10.1.2.3/', "
                   "allow_private: 192.168.0.0/16}]",
                   "10.1.2.3 is a private address");
    expect_warning("endpoints: [{name: a, url: 'http://10.1.2.3/', "
                   "enabled: false}]",
                   NULL);
    expect_warning("notifiers: [{name: ops, webhook: 'http://localhost:1/'}]",
                   "notifiers[0].webhook: warning: localhost is a private");
    expect_warning("sources: [{name: s, provider: plane, secrets: x, order: "
                   "{by: sequence, sequence: 'json:/n', "
                   "backfill: 'http://127.0.0.1/{from}'}}]",
                   "order.backfill: warning: 127.0.0.1 is a private");
}

static void a_path_without_file_is_not_taken_for_a_secret(void **state)
{
    static const char *const lines[] = {
        "sources: [{name: s, provider: github, secrets: [%s]}]",
        "producers: [{name: shop, tokens: [%s]}]",
        "console: {tokens: [%s]}",
        "secrets_key: %s",
        "endpoints: [{name: a, url: 'http://a', signing_secrets: [%s]}]",
        "endpoints: [{name: a, url: 'http://a', headers: {X-Token: %s}}]",
    };
    char *path = gr_printf("%s/ledger.key", folder);
    const char *const paths[] = {path, "./ledger.key", "conf.d/../ledger.key"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        for (size_t k = 0; k < COUNT_OF(paths); k++) {
            const char *at = strstr(lines[i], "%s");
            char *text = gr_printf("%.*s%s%s", (int)(at - lines[i]), lines[i],
                                   paths[k], at + 2);

            expect_error(text, "is the path of a file: write `file:PATH`");
            free(text);
        }
    free(path);
    expect_good("endpoints: [{name: a, url: 'http://a', "
                "headers: {X-Word: ledger.key}}]");
    expect_warning("sources: [{name: s, provider: github, "
                   "secrets: [/etc/grapnel/none]}]",
                   "secrets[0]: warning: looks like the path of a file");
    expect_warning("sources: [{name: s, provider: github, secrets: [x/y]}]",
                   NULL);
}

static void a_short_token_is_a_warning(void **state)
{
    (void)state;
    expect_warning("producers: [{name: shop, tokens: [abcdefghijklmno]}]",
                   "tokens[0]: warning: is shorter than 16 characters");
    expect_warning("console: {tokens: [abc]}",
                   "console.tokens[0]: warning: is shorter than 16");
    expect_warning("console: {tokens: [abcdefghijklmnop]}", NULL);
}

static void a_timeout_that_the_policy_replaces_is_a_warning(void **state)
{
    (void)state;
    expect_warning("endpoints: [{name: a, url: 'http://a', timeout: 20s, "
                   "retry_policy: omise}]",
                   "that of retry policy omise (10s) applies");
    expect_warning("endpoints: [{name: a, url: 'http://a', timeout: 20s}]",
                   NULL);
    expect_warning("endpoints: [{name: a, url: 'http://a', "
                   "retry_policy: omise}]",
                   NULL);
}

static void a_choice_that_no_endpoint_allows_is_a_warning(void **state)
{
    (void)state;
    expect_warning("endpoints: [{name: a, url: 'http://a', retry_choice: none}]"
                   "\nroutes: [{endpoints: a, retry_policy: strict}]",
                   "the choice of this route has no effect");
    expect_warning(
        "endpoints: [{name: a, url: 'http://a', retry_choice: none}, "
        "{name: b, url: 'http://b', retry_choice: fewer}]\n"
        "routes: [{endpoints: [a, b], max_attempts: 2}]",
        NULL);
    expect_warning("endpoint_defaults: {retry_choice: none}\n"
                   "endpoints: [{name: a, url: 'http://a'}]\n"
                   "routes: [{endpoints: a, expires_in: 1h}]",
                   NULL);
}

static void a_lane_that_can_be_blocked_for_hours_is_a_warning(void **state)
{
    (void)state;
    expect_warning(
        "endpoints: [{name: a, url: 'http://a', ordered: workspace}]",
        "up to 22.5 hours (retry policy default)");
    expect_warning("endpoint_defaults: {ordered: all, retry_policy: omise}\n"
                   "endpoints: [{name: a, url: 'http://a'}]",
                   "up to 168.0 hours (retry policy omise)");
    expect_warning("endpoints: [{name: a, url: 'http://a', ordered: all, "
                   "retry_policy: strict}]",
                   NULL);
    expect_warning("endpoints: [{name: a, url: 'http://a'}]", NULL);
}

static void values_that_must_be_quoted_are_named(void **state)
{
    (void)state;
    expect_error("sources: [{name: a, provider: plane, secrets: [${X}]}]",
                 "quote it: \"${X}\"");
    expect_error("endpoints:\n  - name: a\n    url: 'http://a'\n"
                 "    types: [*]\n",
                 "quote it: \"*\"");
    expect_error("endpoints:\n  - name: a\n    url: 'http://a'\n"
                 "    types: [a.b, *.created]\n",
                 "quote it: \"*.created\"");
    expect_error("endpoints:\n  - name: a\n    workspaces:\n      - *\n",
                 "quote it: \"*\"");
    expect_error("endpoints: [{name: a, url: ${URL}}]\n",
                 "quote it: \"${URL}\"");
    expect_error("endpoints: [{name: a, url: 'http://a', headers: "
                 "{Authorization: Bearer ${TOKEN}}}]\n",
                 "quote it: \"Bearer ${TOKEN}\"");
    expect_error("endpoints:\n  - name: a\n    workspaces:\n      - a\n"
                 "      - *x\n",
                 "quote it: \"*x\"");
    expect_error("endpoints: [{name: a, url: https://${HOST}/x}]\n",
                 "quote it: \"https://${HOST}");
    expect_error("endpoints: [{name: a, types: [*created]}]\n",
                 "quote it: \"*created\"");
    expect_error("log: {level: @x}\n", "quote it: \"@x\"");
}

static void a_syntax_error_without_cause_has_no_hint(void **state)
{
    struct buf errors;

    (void)state;
    assert_null(load("a: \"${X}\" # ${Y} *\nb: [\n", &errors));
    assert_null(strstr(errors.data, "put it in quotes"));
    buf_fini(&errors);
}

static void the_word_none_may_be_quoted(void **state)
{
    struct settings *s = load_good("sources: [{name: a, provider: plane, "
                                   "secrets: x, dedupe: \"none\"}]");

    (void)state;
    assert_true(s->sources[0].dedupe.none);
    settings_free(s);
    expect_good("sources: [{name: a, provider: custom, secrets: x, verify: "
                "{header: X-S, time: {from: 'header:X-T', past: 'none'}}}]");
    expect_error("sources: [{name: a, provider: plane, secrets: x, "
                 "dedupe: never}]",
                 "dedupe");
}

/* ---- included files ---- */

static void included_files_add_to_the_lists(void **state)
{
    struct settings *s;

    (void)state;
    write_file("conf.d/key", "k\n");
    write_file("conf.d/b.yaml", "routes: [{endpoints: crm2}]\n");
    write_file("conf.d/a.yaml",
               "sources: [{name: s2, provider: plane, secrets: 'file:key'}]\n"
               "endpoints: [{name: crm2, url: 'http://b', sources: s1}]\n"
               "retry_policies: [{name: strict, max_attempts: 2}]\n");
    write_file("conf.d/.#c.yaml", "not ours\n");
    s = load_good("include: conf.d/*.yaml\n"
                  "endpoint_defaults: {retry_policy: strict}\n"
                  "sources: [{name: s1, provider: plane, secrets: x}]\n");
    assert_int_equal(s->source_count, 2);
    assert_string_equal(settings_source(s, "s2")->secrets.items[0], "k");
    assert_int_equal(settings_endpoint(s, "crm2")->policy->max_attempts, 2);
    assert_int_equal(s->route_count, 1);
    settings_free(s);
}

static void errors_of_an_included_file_name_it(void **state)
{
    static const char main_file[] =
        "include: [conf.d/*.yaml, none.yaml, '*/x.yaml']\n"
        "sources: [{name: s1, provider: plane, secrets: x}]\n";

    (void)state;
    write_file("conf.d/a.yaml", "log: {level: info}\nsources:\n"
                                "  - {name: s1, provider: plane, secrets: y}\n"
                                "  - {name: s3, provider: plan, secrets: y}\n");
    write_file("conf.d/b.yaml", "endpoints: [\n");
    expect_error(main_file,
                 "conf.d/a.yaml:1:1: log: is allowed only in the main");
    expect_error(main_file, "conf.d/a.yaml:3:12: sources[0].name: another "
                            "source has this name (g.yaml:2:18)");
    expect_error(main_file, "conf.d/a.yaml:4:26: sources[1].provider");
    expect_error(main_file, "conf.d/b.yaml:2:1: not YAML");
    expect_error(main_file,
                 "g.yaml:1:26: include[1]: cannot read none.yaml: No "
                 "such file or directory");
    expect_error(main_file,
                 "g.yaml:1:37: include[2]: * is allowed only in the");
    write_file("conf.d/a.yaml", "endpoints: []\n");
    write_file("conf.d/b.yaml", "endpoints: []\n");
    expect_good("include: conf.d/*.yaml\nsources: []\n");
    expect_good("include: conf.d/*.yml\nsources: []\n");
}

/* ---- what is wrong ---- */

#define SOURCE(more) "sources: [{name: s, " more "}]\n"
#define PLANE(more)  SOURCE("provider: plane, secrets: x, " more)
#define CUSTOM(verify) \
    SOURCE("provider: custom, secrets: x, verify: {" verify "}")
#define TOKEN(place, more)                                   \
    SOURCE("provider: custom, secrets: x, verify: {scheme: " \
           "shared-token, " place "}, " more)
#define ENDPOINT(more) "endpoints: [{name: e, " more "}]\n"
#define URL(url)       ENDPOINT("url: '" url "'")
#define REACH(more)    ENDPOINT("url: 'http://a', " more)
#define RELAY(x)       "outbox: [{name: a, database: " x "}]"
#define BASE64_OF_32   "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
#define PEERS(text)    "cluster: {peers: [{" text "}]}"
#define KEY_A          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_B          "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define RELAYS(x, y) \
    "outbox: [{name: a, database: " x "}, {name: b, database: " y "}]"
#define POLICY(more) "retry_policies: [{name: p, " more "}]\n"

static const struct {
    const char *text, *error;
} wrong[] = {
    {"sources: [{}]", "sources[0].name: is missing"},
    {SOURCE("secrets: x"), "sources[0].provider: is missing"},
    {SOURCE("provider: plane"), "sources[0].secrets: is missing"},
    {SOURCE("provider: plane, secrets: []"), "secrets: must not be an empty"},
    {SOURCE("provider: plane, secrets: ''"), "secrets: must not be empty"},
    {SOURCE("provider: plain, secrets: x"), "did you mean plane?"},
    {SOURCE("provider: githbu, secrets: x"), "did you mean github?"},
    {SOURCE("provider: custom, secrets: x"), "sources[0].verify: is missing"},
    {SOURCE("provider: plane, secret: x"), "did you mean secrets?"},
    {"sources: [{name: S, provider: plane, secrets: x}]", "is not a name"},
    {"sources: [{name: -s, provider: plane, secrets: x}]", "is not a name"},
    {"sources: [{name: 's t', provider: plane, secrets: x}]", "is not a name"},
    {"sources: [{name: "
     "a123456789012345678901234567890123456789012345678901234567890123}]",
     "is too long"},
    {"sources: {name: s}", "must be a list (each source begins with a dash)"},
    {"sources:", "must be a list"},
    {PLANE("verify: {header: X}"), "is only for provider: custom"},
    {PLANE("clock_skew: 0s"), "must be at least 1s"},
    {PLANE("dedupe: non"), "must be none, or a map"},
    {PLANE("dedupe: {keys: []}"), "must not be an empty list"},
    {PLANE("dedupe: {keys: [[id], [id], [id], [id], [id], [id], [id], [id], "
           "[id], [id], [id], [id], [id], [id], [id], [id]]}"),
     "must be at most 15 keys"},
    {PLANE("dedupe: {keys: [[source]]}"), "is the same for all events"},
    {PLANE("dedupe: {keys: [[source, id]]}"), "but this source has no id"},
    {PLANE("dedupe: {keys: [[foo]]}"), "is not a field expression"},
    {PLANE("dedupe: {window: x}"), "dedupe.window: "},
    {PLANE("id: id"), "must be a field of the request"},
    {PLANE("id: 'json:a'"), "must begin with a slash"},
    {PLANE("type: 'form:'"), "needs the name of a field"},
    {PLANE("type: []"), "must not be an empty list"},
    {PLANE("type: ['json:/a', id]"), "must be a field of the request"},
    {PLANE("public_url: x"), "must begin with https://"},
    {PLANE("public_url: 'https://x/in/a?b=c'"), "must not have a query"},
    {SOURCE("provider: square, secrets: x"), "public_url: is missing"},
    {SOURCE("provider: paypal, secrets: x"), "webhook_id: is missing"},
    {SOURCE("provider: paypal, secrets: x, webhook_id: w"),
     "secrets: secret 1 is not an RSA public key"},
    {SOURCE("provider: paypal, secrets: x, webhook_id: w, dedupe: {ttl: 4d}"),
     "dedupe: keys are remembered for 4d, but a signed request is accepted "
     "from 5m "
     "before its time until 4d after it"},
    {SOURCE("provider: slack, secrets: x, clock_skew: 12h"),
     "clock_skew: keys are remembered for 1d, but"},
    {SOURCE("provider: custom, secrets: x, id: 'json:/i', verify: {header: X, "
            "signed: '{ts}.{body}', time: {from: 'header:T', past: 30d}}"),
     "keys are remembered for 7d, but"},
    {SOURCE("provider: custom, secrets: x, id: 'json:/i', verify: {header: X, "
            "signed: '{ts}.{body}', time: {from: 'header:T', future: none}}"),
     "is accepted from any time before its time"},
    {SOURCE("provider: discord, secrets: [zz]"),
     "secrets: secret 1 is not in the encoding"},
    {SOURCE("provider: discord, secrets: ['00']"),
     "secrets: secret 1 is not an Ed25519 public key"},
    {PLANE("order: {by: sequence}"), "order.sequence: is missing"},
    {PLANE("order: {by: timestamp}"), "order.timestamp: is missing"},
    {PLANE("order: {by: size}"), "order.by: "},
    {PLANE("order: {give_up_after: 1s}"), "has no effect with by: arrival"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', window: 1s}"),
     "window: has no effect with by: sequence"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', start: 2}"),
     "start: \"2\" is not one of"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', buffer: 0}"),
     "order.buffer: "},
    {PLANE("order: {by: sequence, sequence: 'json:/n', allow_private: true}"),
     "allow_private: has no effect without"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', backfill: "
           "'http://{source}/x'}"),
     "must not have braces in the host"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', backfill: "
           "'http://a/{id}'}"),
     "no other braces"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', backfill: "
           "'http://a/b/../{from}'}"),
     "must not have . or .. in its path"},
    {PLANE("order: {by: sequence, sequence: 'json:/n', backfill: "
           "'http://a/b/%2E./{from}'}"),
     "must not have . or .. in its path"},
    {PLANE("states: {}"), "states.object: "},
    {PLANE("reconcile: {}"), "reconcile.token_file: "},
    {PLANE("reconcile: {token_file: a}"), "does not say how its provider"},
    {PLANE("reconcile: {token_file: a, list: {url: 'http://a.example/'}}"),
     "must begin with https://"},
    {PLANE("reconcile: {token_file: a, list: {event_url: 'https://a/{b}'}}"),
     "must begin with {list}"},
    {PLANE(
         "reconcile: {token_file: a, list: {time: 'json:/t', paging: cursor}, "
         "url: 'https://a.example/'}"),
     "list.cursor is missing"},
    {PLANE("states: {object: 'json:/o', state: 'json:/s', initial: a, moves: "
           "a-b}"),
     "states.moves: must be two states"},
    {CUSTOM("prefix: a"), "verify.header: is missing"},
    {CUSTOM("header: 'X Y'"), "is not a header name"},
    {CUSTOM("header: X, signed: '{ts}.{body}'"), "set time.from"},
    {CUSTOM("header: X, signed: 'abc'"), "verify.signed: "},
    {CUSTOM("header: X, signed: '{bod}'"), "verify.signed: "},
    {CUSTOM("scheme: hmac-sha256"), "header: is missing"},
    {CUSTOM("header: X, signature: 'json:/s'"), "is set in addition to header"},
    {CUSTOM("header: X, scheme: rot13"), "scheme: \"rot13\" is not one of"},
    {CUSTOM("header: X, form: 'kv:t'"), "is not a form; write plain"},
    {CUSTOM("header: X, form: 'kv:,;t'"), "is not a form; write plain"},
    {CUSTOM("header: X, form: 'list:'"), "is not a form; write plain"},
    {CUSTOM("header: X, form: 'prefix:'"), "is not a form; write plain"},
    {CUSTOM("header: X, signed: '{id}.{body}'"), "id: is signed, so"},
    {CUSTOM("header: X, signed: '{token}{body}'"), "set token to the field"},
    {CUSTOM("header: X, signed: '{url}{body}'"), "public_url: is missing"},
    {CUSTOM("header: X, signed: '{url}'"), "the signature proves nothing"},
    {CUSTOM("header: X, signed: '{bdy}'"), "known are body ts id"},
    {CUSTOM("header: X, time: {from: 'const:1'}"), "must be a header:, json:"},
    {CUSTOM("header: X, scheme: ed25519"),
     "secrets: secret 1 is not an Ed25519 public key"},
    {CUSTOM("header: X, encoding: hax"), "did you mean hex?"},
    {CUSTOM("header: X, time: {unit: s}"), "time: is incomplete: set from"},
    {CUSTOM("header: X, time: {from: source}"), "must be a header:, json:"},
    {CUSTOM("header: X, secret_encoding: base64"), "secret 1 is not in"},
    {TOKEN("signature: 'query:pw'", "workspace: [json:/w, 'query:pw']"),
     "workspace: query:pw may contain the shared token"},
    {TOKEN("header: X-Pw", "type: header:x-pw"),
     "type: header:x-pw may contain the shared token"},
    {TOKEN("signature: [header:X-Pw, 'query:pw']",
           "order: {by: sequence, sequence: 'query:pw'}"),
     "order: query:pw may contain the shared token"},
    {TOKEN("header: Authorization", "states: {object: header:Authorization, "
                                    "state: json:/s, initial: [a], moves: []}"),
     "states: header:Authorization may contain the shared token"},
    {ENDPOINT("types: a"), "endpoints[0].url: is missing"},
    {ENDPOINT("transport: pull, url: \"http://x\""),
     "url: has no effect with transport: pull; remove it"},
    {ENDPOINT("transport: pull, connect_timeout: 1s"),
     "connect_timeout: has no effect with transport: pull"},
    {ENDPOINT("transport: push"), "transport: \"push\""},
    {URL("ftp://a/"), "must begin with https:// or http://"},
    {URL("a.example.com"), "must begin with https:// or http://"},
    {URL("http://"), "has no valid host"},
    {URL("http:///x"), "has no valid host"},
    {URL("http://u:p@a/"), "must not contain a user"},
    {URL("http://u@a"), "must not contain a user"},
    {URL("http://a:0/"), "no valid port"},
    {URL("http://a:65536/"), "no valid port"},
    {URL("http://a:x/"), "no valid port"},
    {URL("http://a:/"), "no valid port"},
    {URL("http://[::1"), "no valid address between"},
    {URL("http://[::x]/"), "no valid address between"},
    {URL("http://[::1]x/"), "no valid port"},
    {URL("http://a/#b"), "has a fragment"},
    {URL("http://a b/"), "must be %-encoded"},
    {URL("http://a\\b/"), "must be %-encoded"},
    {URL("http://a/\xc3\xa9"), "must be %-encoded"},
    {REACH("types: []"), "must not be an empty list: remove the key"},
    {REACH("sources: plnae"), "there is no source \"plnae\""},
    {REACH("retry_policy: strickt"), "(did you mean strict?)"},
    {REACH("signing_secrets: abc"), "must begin with whsec_"},
    {REACH("signing_secrets: whsk_abc"), "base64 of an Ed25519 key"},
    {REACH("signing_secrets: whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
     "is a public key, which is for the receiver"},
    {REACH("allowed_ports: [443, 8443]"), "url: has port 80, which is not"},
    {REACH("allowed_ports: []"), "must not be an empty list"},
    {REACH("allowed_ports: [0]"),
     "is not a port: write a number from 1 to 65535"},
    {REACH("allowed_ports: 65536"),
     "is not a port: write a number from 1 to 65535"},
    {REACH("tls: {ca: x}"), "tls.ca: is not a certificate in PEM"},
    {REACH("tls: {key: x}"), "tls.key: is not a private key in PEM"},
    {REACH("tls: {ca: 'file:none.pem'}"), "cannot read none.pem"},
    {REACH("tls: {cert: x}"), "unknown key"},
    {REACH("signing_secrets: whsec_AAAA"), "base64 of 24 to 64 bytes"},
    {REACH("signing_secrets: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS'"),
     "base64 of 24 to 64 bytes"},
    {REACH("signing_secrets: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa*w'"),
     "base64 of 24 to 64 bytes"},
    {REACH("method: GET"), "must be POST or PUT"},
    {REACH("headers: {connection: x}"),
     "headers.connection: cannot be set: this header"},
    {REACH("headers: {Content-Length: x}"), "cannot be set"},
    {REACH("headers: {Webhook-Id: x}"), "Grapnel itself sets the headers"},
    {REACH("headers: {grapnel-foo: x}"), "Grapnel itself sets the headers"},
    {REACH("headers: {X-A: \"a\\r\\nb\"}"), "line break"},
    {REACH("headers: {'X A': x}"), "is not a header name"},
    {REACH("headers: {X-A: x, x-a: b}"), "is the same header as X-A"},
    {REACH("headers: {X-A: 12}"), "put it in quotes"},
    {REACH("headers: [a]"), "must be a map"},
    {REACH("forward_headers: [Cookie]"), "cannot be forwarded"},
    {REACH("forward_headers: [X-Plane-Signature]"), "cannot be forwarded"},
    {REACH("forward_headers: [PAYPAL-TRANSMISSION-SIG]"),
     "cannot be forwarded"},
    {REACH("forward_headers: [X-Password]"), "cannot be forwarded"},
    {REACH("forward_headers: [grapnel-signature]"), "cannot be forwarded"},
    {REACH("forward_headers: [webhook-id]"), "Grapnel itself sets the headers"},
    {REACH("headers: {Grapnel-Signature: x}"),
     "Grapnel itself sets the headers"},
    {REACH("allow_private: yes"), "\"yes\" is not a network"},
    {REACH("allow_private: 10.0.0.1/8"), "has bits set after its prefix"},
    {REACH("allow_private: 10.0.0.0/33"), "no valid prefix length"},
    {REACH("allow_private: 10.0.0.0/x"), "no valid prefix length"},
    {REACH("allow_private: 10.0.0"), "is not a network"},
    {REACH("enabled: 1"), "must be true or false"},
    {REACH("timeout: 0s"), "must be at least 1ms"},
    {REACH("timeout: 6m"), "must be at most 5m"},
    {REACH("max_in_flight: 0"), "must be at least 1"},
    {REACH("where: {}"), "must have at least one field"},
    {REACH("where: high"), "must be a map of fields"},
    {REACH("where: {data: 1}"), "\"data\""},
    {REACH("where: {'json:/a': []}"), "must not be an empty list"},
    {REACH("where: {'json:/a': {}}"), "must have at least one condition"},
    {REACH("where: {'json:/a': {over: 1}}"),
     "is not a condition; write exists, prefix"},
    {REACH("where: {'json:/a': {above: x}}"), "\"x\" is not a number"},
    {REACH("where: {'json:/a': {exists: 1}}"), "is not true or false"},
    {REACH("on_dead: stop"), "\"stop\" is not one of: continue, halt"},
    {REACH("ordered: lanes"), "\"lanes\" is not one of: none, workspace, all"},
    {REACH("disable_after: 1ms"), "must be at least 1s"},
    {REACH("guard: maybe"), "must be on or off"},
    {"endpoints: [{name: a, url: 'http://a'}, {name: a, url: 'http://a'}]",
     "another endpoint has this name (g.yaml:1:20)"},
    {"endpoint_defaults: {retry_policy: foo}", "there is no retry policy"},
    {"endpoint_defaults: {url: foo}", "url: unknown key"},
    {"routes: [{types: a}]", "routes[0].endpoints: is missing"},
    {"routes: [{endpoints: a}]", "there is no endpoint \"a\""},
    {REACH("") "routes: [{endpoints: e, sources: x}]", "there is no source"},
    {REACH("") "routes: [{endpoints: e, retry_policy: stric}]",
     "there is no retry policy \"stric\" (did you mean strict?)"},
    {REACH("") "routes: [{endpoints: e, priority: higher}]",
     "\"higher\" is not one of: high, normal, low"},
    {REACH("") "routes: [{endpoints: e, max_attempts: 0}]",
     "must be at least 1"},
    {REACH("") "routes: [{endpoints: e, expires_in: 0s}]",
     "must be at least 1ms"},
    {REACH("retry_choice: all"), "\"all\" is not one of: any, fewer, none"},
    {POLICY("factor: 2"), "needs max_attempts or max_duration"},
    {POLICY("max_attempts: 0"), "must be at least 1"},
    {POLICY("max_attempts: 3, first_wait: 0s"), "must be at least 1ms"},
    {POLICY("max_attempts: 3, factor: 0.9"), "must be at least 1"},
    {POLICY("max_attempts: 3, first_wait: 7h"), "longer than max_wait"},
    {POLICY("max_attempts: 3, max_wait: 4s"), "longer than max_wait"},
    {POLICY("max_attempts: 3, schedule: [1s]"),
     "schedule: has no effect with backoff: exponential; remove it, or set "
     "backoff: schedule"},
    {POLICY("backoff: schedule, schedule: [1s], max_attempts: 3, "
            "first_wait: 1s"),
     "or set backoff: exponential or fixed"},
    {POLICY("max_attempts: 3, repeat_last: true"),
     "repeat_last: has no effect with backoff: exponential; remove it, or set "
     "backoff: schedule"},
    {POLICY("max_attempts: 3, backoff: schedule"), "schedule: is missing"},
    {POLICY("max_attempts: 3, backoff: schedule, schedule: []"), "empty list"},
    {POLICY("max_attempts: 3, backoff: schedule, schedule: [0s]"),
     "must be longer than 0"},
    {POLICY("max_attempts: 3, backoff: fixed, factor: 2"), "has no effect"},
    {POLICY("max_attempts: 3, backoff: linear"), "is not one of: exponential"},
    {POLICY("max_attempts: 3, jitter: half"),
     "is not a jitter; write none, full"},
    {POLICY("max_attempts: 3, jitter: 0%"),
     "is not a jitter; write none, full"},
    {POLICY("max_attempts: 3, jitter: 101%"),
     "is not a jitter; write none, full"},
    {POLICY("max_attempts: 3, retry_on: [200]"), "is not network"},
    {POLICY("max_attempts: 3, retry_on: [2xx]"), "is not network"},
    {POLICY("max_attempts: 3, retry_on: [299]"), "is not network"},
    {POLICY("max_attempts: 3, retry_on: [299-301]"), "is not network"},
    {POLICY("max_attempts: 3, timeout: 0s"), "must be at least 1ms"},
    {POLICY("max_attempts: 3, timeout: 6m"), "must be at most 5m"},
    {POLICY("max_attempts: 3, retry_on: [600]"), "is not network"},
    {POLICY("max_attempts: 3, retry_on: [504-500]"), "is not network"},
    {POLICY("max_attempts: 3, retry_on: [500-]"), "is not network"},
    {"retry_policies: [{name: p, max_attempts: 1}, {name: p,"
     " max_attempts: 1}]",
     "another retry policy has this name"},
    {"ingress: {listen: 8080}", "is not address:port"},
    {"ingress: {listen: 'a.example:8080'}", "is not address:port"},
    {"ingress: {listen: '127.0.0.1:0'}", "is not address:port"},
    {"ingress: {listen: '[::1:8080'}", "is not address:port"},
    {"ingress: {max_body: 65MiB}", "must be at most 64MiB"},
    {"ingress: {trusted_proxies: [10.0.0.1/8]}",
     "has bits set after its prefix"},
    {"ingress: {trusted_proxies: [proxy]}", "is not a network"},
    {PLANE("rate_limit: 5"), "rate_limit: "},
    {PLANE("workspaces: []"), "must not be an empty list"},
    {"producers: [{name: p}]", "tokens: is missing"},
    {"producers: [{name: p, tokens: [a], may_name_urls: ['*']}]",
     "must begin with https:// or http://"},
    {"producers: [{name: p, tokens: [a], may_name_urls: ['https://*.b.c']}]",
     "has no path: write /* for any path"},
    {"producers: [{name: p, tokens: ['a b']}]", "has a space"},
    {"producers: [{name: p, tokens: [a]}, {name: p, tokens: [b]}]",
     "another producer has this name"},
    {"producers: [{name: p, tokens: [a]}, {name: q, tokens: [b, a]}]",
     "another producer has this token"},
    {"sources: [{name: s, provider: plane, secrets: [x]}]\n"
     "producers: [{name: s, tokens: [a]}]",
     "a source has this name"},
    {"metrics: {publish: x}", "metrics.publish: is not a ZeroMQ address"},
    {"metrics: {publish: 'tcp://127.0.0.1'}", "has no host, or no port"},
    {"metrics: {publish: 'tcp://127.0.0.1:0'}", "has no host, or no port"},
    {"metrics: {publish: 'tcp://a b:80'}", "has no valid host name"},
    {"metrics: {publish: 'tcp://[::1:80'}", "has no valid host name"},
    {"metrics: {publish: 'ipc://@abstract'}", "has no path of a file"},
    {"console: {hosts: ['metrics.example:80']}", "is not a host name"},
    {"console: {hosts: ['http://metrics.example']}", "is not a host name"},
    {"alerts: [{name: a, when: backlog}]", "needs one of above and below"},
    {"alerts: [{name: a, when: backlogs, above: 1}]", "did you mean backlog"},
    {"alerts: [{name: a, when: backlog, above: ten}]",
     "is not a threshold such as"},
    {"alerts: [{name: a, when: dead_letter, above: 1}]", "has no threshold"},
    {"alerts: [{name: a, when: source_silent}]", "needs silent_for"},
    {"alerts: [{name: a, when: backlog, above: 1, window: 1m}]",
     "has no effect with backlog"},
    {"alerts: [{name: a, when: backlog, above: 1, notify: ops}]",
     "there is no notifier \"ops\""},
    {"notifiers: [{name: ops}]", "needs exactly one of webhook, email, exec"},
    {"notifiers: [{name: ops, exec: [mail]}]", "must begin with an absolute"},
    {"notifiers: [{name: ops, email: {server: x, from: a@b, to: c@d}}]",
     "is not the address of a mail server"},
    {"console: {token: x}", "did you mean tokens"},
    {RELAY("redis://h/1"), "is not the URI of a database"},
    {RELAY("postgresql://u:secret@h/app"), "set `password_file`"},
    {RELAY("mysql://u:secret@h/app"), "set `password_file`"},
    {RELAY("mysql://u@h"), "names no database"},
    {RELAY("mysql://u@h:0/app"), "has a port that is not a number"},
    {RELAY("'mysql://u@[::1/app'"), "is not the URI of a database"},
    {RELAY("mysql://u@h/app?ssl=no"), "has an option that is not known"},
    {RELAY("mysql://u@h/app?socket=x"), "is not an absolute path"},
    {RELAY("mysql://u%0@h/app"), "is not the URI of a database"},
    {RELAY("sqlite:app.db"), "absolute path of a file"},
    {RELAY("sqlite://app.db"), "absolute path of a file"},
    {RELAY("sqlite:///var/lib/app/"), "absolute path of a file"},
    {RELAY("sqlite:///app.db?mode=ro"), "has options"},
    {RELAY("sqlite:///app.db, table: main.out"), "has no schemas"},
    {RELAY("sqlite:///app.db, password_file: p"), "has no password"},
    {RELAYS("sqlite:///app.db", "sqlite:///app.db, where: x = 1"),
     "relay a reads the same table"},
    {RELAY("sqlite:///app.db, statuses: {new: OPEN, retrying: open}"),
     "is the status of `new` and of `retrying`"},
    {RELAY("sqlite:///app.db, statuses: {failed: SUCCESS}"),
     "is the status of `delivered` and of `failed`"},
    {PEERS("name: billing, address: 'h:1', key: " KEY_A),
     "is not the name of a sequencer, a deliverer, an ingress, a dlqd or a "
     "console"},
    {PEERS("name: deliverer2, address: 'h:1', key: " KEY_A),
     "is not the name of a sequencer"},
    {PEERS("name: sequencer, address: 'h', key: " KEY_A),
     "address: is not host:port"},
    {PEERS("name: sequencer, address: 'tcp://h:1', key: " KEY_A),
     "is not host:port"},
    {PEERS("name: sequencer, address: 'h:65534', key: " KEY_A),
     "uses one of the last two ports"},
    {PEERS("name: sequencer, address: 'h:1'"), "key: is missing"},
    {PEERS("name: sequencer, address: 'h:1', key: abc"), "is not a public key"},
    {PEERS("name: sequencer, address: 'h:1', key: " KEY_A ", keys: x"),
     "unknown key"},
    {PEERS("name: sequencer, address: 'h:1', insecure: true, key: " KEY_A),
     "unknown key"},
    {PEERS("name: sequencer, address: 'h:1', key: " KEY_A
           "}, {name: sequencer, address: 'i:1', key: " KEY_B),
     "there are several peers named \"sequencer\": give each of its instances"},
    {PEERS("name: sequencer, host: a, address: 'h:1', key: " KEY_A
           "}, {name: sequencer, address: 'i:1', key: " KEY_B),
     "there are several peers named \"sequencer\""},
    {PEERS("name: sequencer, host: a, address: 'h:1', key: " KEY_A
           "}, {name: sequencer, host: a, address: 'i:1', key: " KEY_B),
     "there are two peers named \"sequencer\" on host \"a\""},
    {PEERS("name: sequencer, host: a.b, address: 'h:1', key: " KEY_A),
     "host: is not a name"},
    {PEERS("name: sequencer, address: 'h:1', key: " KEY_A
           "}, {name: ingress, address: 'i:1', key: " KEY_A),
     "sequencer has this key, too"},
    {PEERS("name: sequencer, address: 'h:1', key: " KEY_A
           "}, {name: ingress, address: 'h:2', key: " KEY_B),
     "uses a port of sequencer"},
    {PEERS("name: sequencer, address: 'h:1', key: [" KEY_A ", " KEY_B ", " KEY_B
           "]"),
     "two are enough"},
    {"replicate: {database: service=grapnel}", "replicate needs a `key`"},
    {"replicate: {key: " BASE64_OF_32 "}", "replicate needs a `database`"},
    {"replicate: {database: '', key: " BASE64_OF_32 "}", "must not be empty"},
    {"replicate: {database: 'host=a password=b', key: " BASE64_OF_32 "}",
     "has a password in it"},
    {"replicate: {database: 'postgresql://a:b@c/d', key: " BASE64_OF_32 "}",
     "has a password in it"},
    {"replicate: {database: 'host=a', key: c2hvcnQ=}",
     "must be base64 of exactly 32 bytes"},
    {"replicate: {takeover_after: 1s}", "takeover_after"},
    {"endpoint: []", "unknown key (did you mean endpoints?)"},
    {"run_dir: /123456789/123456789/123456789/123456789/123456789/123456789/"
     "123456789/123456789x",
     "is too long for the path of a socket"},
};

static void impossible_settings_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        expect_error(wrong[i].text, wrong[i].error);
}

static void possible_settings_are_accepted(void **state)
{
    static const char *const good[] = {
        PEERS("name: sequencer, address: '[fd00::1]:7470', key: " KEY_A
              "}, {name: deliverer-2, address: 'b.internal:7470', key: "
              "[" KEY_B "]"),
        PEERS("name: dlqd, host: a, address: 'h:1', key: " KEY_A
              "}, {name: dlqd, host: b, address: 'i:1', key: " KEY_B),
        "replicate: {database: 'postgresql://u@a:1,b:2/d', takeover_after: 3s, "
        "key: " BASE64_OF_32 "}",
        URL("https://a.example.com:8443/x?y=%20z&t=1@2"),
        URL("HTTP://[::1]:80"),
        URL("http://a_b.example?x"),
        REACH("sources: 'pl*'"),
        REACH("types: a, signing_secrets: "
              "['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',"
              " 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=']"),
        POLICY("max_duration: 1ms, backoff: fixed, first_wait: 1ms"),
        POLICY("max_attempts: 1, retry_on: []"),
        POLICY("max_attempts: 1, retry_on: [400, 500-504, network]"),
        POLICY("max_attempts: 1, retry_on: [3xx, 300-302], timeout: 5m"),
        "ingress: {listen: '[::]:1'}",
        "ingress: {listen: localhost:65535}",
        "shutdown_grace: 0s",
        CUSTOM("header: X, signed: '{body}', time: {from: 'json:/t',"
               " unit: ms}"),
        RELAYS("sqlite:////var/lib/app.db", "sqlite:///app.db"),
        RELAYS("sqlite:///app.db, where: x = 1",
               "sqlite:///app.db, where: x > 1"),
        RELAYS("'mysql://u@[::1]:3306/app'", "mariadb:///a%20b?socket=/run/s"),
        RELAYS("mysql://u@h/app?ssl_ca=/a.pem", "mysql://u%40v@h/app"),
        RELAYS("sqlite:///app.db, where: x = 1",
               "sqlite:///app.db, where: x > 1"),
        RELAYS("sqlite:///app.db", "sqlite:///app.db, table: other"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        expect_good(good[i]);
}

/* ---- what is printed ---- */

#define PORTS(INGRESS, CONSOLE, PUBLISH)                            \
    "ingress: {listen: '" INGRESS "'}\nconsole: {listen: '" CONSOLE \
    "'}\nmetrics: {publish: '" PUBLISH "'}\n"

static void two_listeners_with_one_port_are_an_error(void **state)
{
    static const char elsewhere[] =
        "cluster: {peers: [{name: ingress, address: '10.0.0.1:7470', key: "
        "'" KEY_A "'}]}\n" PORTS("0.0.0.0:1", "0.0.0.0:1", "ipc:///a");

    (void)state;
    /* Two processes may be in two containers. */
    expect_warning(PORTS("127.0.0.1:1", "127.0.0.1:1", "tcp://127.0.0.1:2"),
                   "console.listen: warning: listens at the same address and "
                   "port as ingress.listen: choose");
    expect_error(PORTS("127.0.0.1:1", "127.0.0.1:2", "tcp://127.0.0.1:2"),
                 "metrics.publish: listens at the same address and port as "
                 "console.listen: choose");
    expect_warning(PORTS("0.0.0.0:2", "127.0.0.1:1", "tcp://127.0.0.1:2"),
                   "as ingress.listen");
    expect_error(PORTS("127.0.0.1:3", "[::]:2", "tcp://127.0.0.1:2"),
                 "as console.listen");
    expect_error(PORTS("127.0.0.1:3", "[::1]:2", "tcp://[0::1]:2"),
                 "as console.listen");
    expect_error(PORTS("127.0.0.1:3", "localhost:2", "tcp://*:2"),
                 "as console.listen");
    expect_good(PORTS("127.0.0.1:1", "127.0.0.2:1", "tcp://127.0.0.3:1"));
    expect_good(PORTS("127.0.0.1:1", "[::1]:1", "tcp://eth0:1"));
    expect_good(PORTS("0.0.0.0:1", "[::1]:1", "ipc:///tmp/a:1"));
    expect_good(elsewhere);
    /* The console, whose default this is, may not be in use. */
    expect_warning("ingress: {listen: '127.0.0.1:8081'}",
                   "ingress.listen: warning: listens at the same address and "
                   "port as console.listen (by default)");
    expect_warning("sources: []", NULL);
}

static char *replaced(const char *text, const char *from, const char *to)
{
    struct buf b;
    const char *at;

    buf_init(&b, 1 << 20);
    for (; (at = strstr(text, from)); text = at + strlen(from)) {
        buf_put(&b, text, (size_t)(at - text));
        buf_puts(&b, to);
    }
    buf_puts(&b, text);
    return buf_take(&b);
}

static void print(const char *text, struct buf *out)
{
    struct settings *s = load_good(text);

    buf_init(out, 1 << 20);
    settings_print(s, out);
    settings_free(s);
}

static void secrets_are_never_printed(void **state)
{
    struct buf out;

    (void)state;
    print(example, &out);
    assert_null(strstr(out.data, "plane_wh_1"));
    assert_null(strstr(out.data, "s3cret"));
    assert_null(strstr(out.data, "t0ken"));
    assert_null(strstr(out.data, "MfKQ"));
    buf_fini(&out);
    print(URL("https://a/x?token=abc"), &out);
    assert_null(strstr(out.data, "abc"));
    buf_fini(&out);
}

/* The printed configuration reads back the same when the secrets are filled in. */
static void printed_text_reads_back_the_same(void **state)
{
    struct buf first, second;
    char *custom = replaced(example, "provider: plane\n",
                            "provider: custom\n    verify: {header: X-S}\n");
    char *filled;

    (void)state;
    print(custom, &first);
    filled = replaced(first.data, "…",
                      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    print(filled, &second);
    assert_string_equal(first.data, second.data);
    free(custom);
    free(filled);
    buf_fini(&first);
    buf_fini(&second);
}

static char *documentation_path(void)
{
    const char *end = strstr(__FILE__, "tests/unit/");

    assert_non_null(end);
    return gr_printf("%.*sdocs/CONFIGURATION.md", (int)(end - __FILE__),
                     __FILE__);
}

/* A relative __FILE__ is of the folder that the test was started in. */
static char started_in[4096];

static void the_documentation_is_that_of_the_tables(void **state)
{
    char *path = documentation_path(), *there;
    struct buf want;
    FILE *f;

    (void)state;
    buf_init(&want, 1 << 20);
    settings_document(&want);
    assert_false(want.failed);
    assert_int_equal(chdir(started_in), 0);
    if (getenv("GRAPNEL_WRITE_DOCS"))
        write_file(path, want.data);
    f = fopen(path, "r");
    assert_non_null(f);
    there = gr_alloc(want.max);
    there[fread(there, 1, want.max - 1, f)] = 0;
    fclose(f);
    assert_string_equal(there, want.data);
    assert_int_equal(chdir(folder), 0);
    free(there);
    free(path);
    buf_fini(&want);
}

/* ---- whatever is in the file ---- */

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 8;
}

/* Letters that mean something to YAML or to us. */
static void mutate(char *text, unsigned *seed)
{
    static const char letters[] = "{}[],:-&*!|>'\"%@`#?$ \n\tyn019.\\/~<=x\xff";
    size_t n = strlen(text);
    unsigned times = 1 + next_random(seed) % 6;

    while (times--) {
        size_t at = next_random(seed) % n, from = next_random(seed) % n;
        size_t length = next_random(seed) % 20;

        if (next_random(seed) % 3)
            text[at] = letters[next_random(seed) % (sizeof letters - 1)];
        else if (at + length < n && from + length < n)
            memmove(text + at, text + from, length);
    }
}

/* Either it is right, or it says what is wrong; nothing else happens. */
static void random_files_do_no_harm(void **state)
{
    const char *times = getenv("GRAPNEL_MUTATIONS");
    int n = times ? atoi(times) : MUTATIONS;
    unsigned seed = 20261121;

    (void)state;
    for (int i = 0; i < n; i++) {
        char *text = gr_strdup(example);
        struct buf errors, out;
        struct settings *s;

        mutate(text, &seed);
        s = load(text, &errors);
        assert_true(s ? errors.len == 0 : errors.len > 0);
        buf_init(&out, 1 << 20);
        if (s)
            settings_print(s, &out);
        settings_free(s);
        buf_fini(&out);
        buf_fini(&errors);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_is_read),
        cmocka_unit_test(the_example_has_the_defaults),
        cmocka_unit_test(policies_are_built_in_and_a_declared_one_wins),
        cmocka_unit_test(a_profile_fills_what_the_file_leaves_open),
        cmocka_unit_test(run_dir_is_found_despite_other_errors),
        cmocka_unit_test(errors_of_the_read_part_are_reported),
        cmocka_unit_test(policies_are_read_without_the_rest),
        cmocka_unit_test(a_private_address_without_allow_private_is_a_warning),
        cmocka_unit_test(a_path_without_file_is_not_taken_for_a_secret),
        cmocka_unit_test(a_short_token_is_a_warning),
        cmocka_unit_test(two_listeners_with_one_port_are_an_error),
        cmocka_unit_test(a_timeout_that_the_policy_replaces_is_a_warning),
        cmocka_unit_test(a_choice_that_no_endpoint_allows_is_a_warning),
        cmocka_unit_test(a_lane_that_can_be_blocked_for_hours_is_a_warning),
        cmocka_unit_test(values_that_must_be_quoted_are_named),
        cmocka_unit_test(a_syntax_error_without_cause_has_no_hint),
        cmocka_unit_test(the_word_none_may_be_quoted),
        cmocka_unit_test(private_networks_are_all_none_or_some),
        cmocka_unit_test(included_files_add_to_the_lists),
        cmocka_unit_test(errors_of_an_included_file_name_it),
        cmocka_unit_test(impossible_settings_are_errors),
        cmocka_unit_test(possible_settings_are_accepted),
        cmocka_unit_test(secrets_are_never_printed),
        cmocka_unit_test(printed_text_reads_back_the_same),
        cmocka_unit_test(the_documentation_is_that_of_the_tables),
        cmocka_unit_test(random_files_do_no_harm),
    };

    if (!getcwd(started_in, sizeof started_in))
        return 1;
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
