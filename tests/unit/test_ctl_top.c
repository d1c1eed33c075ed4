/* Tests of `grapnel top` without a terminal: from frames and responses to lines that
 * fit a window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "rates.h"
#include "table.h"
#include "top_view.h"
#include <math.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND = 1000, STALE = 11 * SECOND, WALL = 1000000000 };

/* ---- frames ---- */

struct frame {
    msgpack_sbuffer bytes;
    msgpack_packer pk;
    int series;
    msgpack_sbuffer list;
    msgpack_packer list_pk;
    const char *about[8][2];
    int abouts;
};

static void text(msgpack_packer *pk, const char *s)
{
    msgpack_pack_str(pk, strlen(s));
    msgpack_pack_str_body(pk, s, strlen(s));
}

static struct frame *begin(void)
{
    struct frame *f = calloc(1, sizeof *f);

    msgpack_sbuffer_init(&f->bytes);
    msgpack_packer_init(&f->pk, &f->bytes, msgpack_sbuffer_write);
    msgpack_sbuffer_init(&f->list);
    msgpack_packer_init(&f->list_pk, &f->list, msgpack_sbuffer_write);
    return f;
}

static void about(struct frame *f, const char *name, const char *kind)
{
    f->about[f->abouts][0] = name;
    f->about[f->abouts++][1] = kind;
}

static void put_labels(struct frame *f, const char *name, const char *endpoint,
                       const char *outcome)
{
    msgpack_packer *pk = &f->list_pk;

    f->series++;
    text(pk, "name");
    text(pk, name);
    text(pk, "labels");
    msgpack_pack_map(pk, (endpoint != NULL) + (outcome != NULL));
    if (endpoint) {
        text(pk, "endpoint");
        text(pk, endpoint);
    }
    if (outcome) {
        text(pk, "outcome");
        text(pk, outcome);
    }
}

static void value(struct frame *f, const char *name, const char *endpoint,
                  const char *outcome, double v)
{
    msgpack_pack_map(&f->list_pk, 3);
    put_labels(f, name, endpoint, outcome);
    text(&f->list_pk, "value");
    msgpack_pack_double(&f->list_pk, v);
}

/* Bounds 0.01 and 1 s. */
static void histogram(struct frame *f, const char *name, const char *endpoint,
                      int fast, int slow, int beyond)
{
    const int counts[] = {fast, slow, beyond};
    msgpack_packer *pk = &f->list_pk;

    msgpack_pack_map(pk, 5);
    put_labels(f, name, endpoint, NULL);
    text(pk, "le");
    msgpack_pack_array(pk, 2);
    msgpack_pack_double(pk, 0.01);
    msgpack_pack_double(pk, 1);
    text(pk, "counts");
    msgpack_pack_array(pk, 3);
    for (int i = 0; i < 3; i++)
        msgpack_pack_int(pk, counts[i]);
    text(pk, "sum");
    msgpack_pack_double(pk, 1);
}

/* Collects and frees it. */
static void hear(struct collector *g, struct frame *f, const char *process,
                 uint64_t epoch, int64_t started_ms, int64_t time_ms,
                 int64_t mono_now_ms)
{
    msgpack_packer *pk = &f->pk;

    msgpack_pack_map(pk, 9);
    text(pk, "v");
    msgpack_pack_int(pk, 1);
    text(pk, "process");
    text(pk, process);
    text(pk, "kind");
    text(pk, process);
    text(pk, "epoch");
    msgpack_pack_uint64(pk, epoch);
    text(pk, "started_ms");
    msgpack_pack_int64(pk, started_ms);
    text(pk, "time_ms");
    msgpack_pack_int64(pk, time_ms);
    text(pk, "about");
    msgpack_pack_map(pk, (size_t)f->abouts);
    for (int i = 0; i < f->abouts; i++) {
        text(pk, f->about[i][0]);
        msgpack_pack_array(pk, 3);
        text(pk, f->about[i][1]);
        text(pk, "");
        text(pk, "");
    }
    text(pk, "metrics");
    msgpack_pack_map(pk, 0);
    text(pk, "series");
    msgpack_pack_array(pk, (size_t)f->series);
    msgpack_sbuffer_write(&f->bytes, f->list.data, f->list.size);
    assert_int_equal(
        collector_frame(g, (struct bytes){f->bytes.data, f->bytes.size},
                        mono_now_ms),
        GR_OK);
    rates_take(g);
    msgpack_sbuffer_destroy(&f->bytes);
    msgpack_sbuffer_destroy(&f->list);
    free(f);
}

/* ---- one look ---- */

struct world {
    struct collector *collector;
    struct top_input in;
    json_t *endpoints, *gaps, *alerts;
};

static void open_world(struct world *w)
{
    *w = (struct world){.collector = collector_new(WALL, STALE)};
    w->in = (struct top_input){.collector = w->collector,
                               .sequencer_why = "",
                               .console_why = "",
                               .now_ms = WALL,
                               .stale_ms = STALE};
}

static void close_world(struct world *w)
{
    collector_free(w->collector);
    json_decref(w->endpoints);
    json_decref(w->gaps);
    json_decref(w->alerts);
}

static void accepted(struct world *w, uint64_t epoch, int64_t started_s,
                     int64_t at_s, double total)
{
    struct frame *f = begin();

    about(f, "grapnel_ingress_accepted_total", "counter");
    value(f, "grapnel_ingress_accepted_total", NULL, NULL, total);
    hear(w->collector, f, "ingress", epoch, WALL + started_s * SECOND,
         WALL + at_s * SECOND, at_s * SECOND);
    w->in.mono_ms = at_s * SECOND;
}

static double accepted_rate(struct world *w)
{
    struct top_data f;
    double rate;

    top_data_build(&f, &w->in);
    rate = f.accepted;
    top_data_fini(&f);
    return rate;
}

static void a_rate_is_of_the_last_ten_seconds_by_the_sender_s_clock(void **s)
{
    struct world w;

    (void)s;
    open_world(&w);
    accepted(&w, 7, -100, 5, 1000); /* it counted before we listened */
    assert_true(isnan(accepted_rate(&w)));
    accepted(&w, 7, -100, 10, 1050);
    assert_float_equal(accepted_rate(&w), 10, 1e-9);
    accepted(&w, 7, -100, 15, 1050);
    assert_float_equal(accepted_rate(&w), 5, 1e-9);
    accepted(&w, 7, -100, 20, 1050);
    assert_float_equal(accepted_rate(&w), 0, 1e-9);
    /* It starts anew: what it counted since is added, nothing taken off. */
    accepted(&w, 8, 21, 25, 20);
    assert_float_equal(accepted_rate(&w), 2, 1e-9);
    /* Nothing is said of one that is silent. */
    w.in.mono_ms += STALE + 1;
    assert_true(isnan(accepted_rate(&w)));
    /* Its clock was set back: known again after two frames. */
    accepted(&w, 8, 21, 23, 40);
    assert_true(isnan(accepted_rate(&w)));
    accepted(&w, 8, 21, 24, 50);
    assert_float_equal(accepted_rate(&w), 10, 1e-9);
    close_world(&w);
}

static void attempts(struct world *w, int64_t at_s, const char *endpoint,
                     double good, double retrying)
{
    struct frame *f = begin();
    static const char name[] = "grapnel_endpoint_attempts_total";

    about(f, name, "counter");
    about(f, "grapnel_attempt_seconds", "histogram");
    value(f, name, "other-one", "delivered", 1);
    if (good + retrying > 0) {
        value(f, name, endpoint, "delivered", good);
        value(f, name, endpoint, "retrying", retrying);
        histogram(f, "grapnel_attempt_seconds", endpoint, (int)good,
                  (int)retrying, 0);
    }
    hear(w->collector, f, "deliverer-1", 7, WALL - SECOND, WALL + at_s * SECOND,
         at_s * SECOND);
    w->in.mono_ms = at_s * SECOND;
}

static void an_endpoint_s_first_numbers_are_a_rate_at_once(void **s)
{
    struct world w;
    struct top_data f;

    (void)s;
    open_world(&w);
    attempts(&w, 5, "crm", 0, 0);
    attempts(&w, 10, "crm", 30, 10); /* not there before: all of it is new */
    top_data_build(&f, &w.in);
    assert_int_equal(f.endpoint_count, 2);
    assert_string_equal(f.endpoints[0].name, "crm");
    assert_float_equal(f.endpoints[0].rate, 8, 1e-9);
    assert_float_equal(f.endpoints[0].failed, 0.25, 1e-9);
    /* 95 of 100: four fifths into the second bucket. */
    assert_float_equal(f.endpoints[0].p95_s, 0.01 + 0.8 * 0.99, 1e-9);
    assert_int_equal(f.endpoints[0].mark, MARK_WARNING);
    assert_string_equal(f.endpoints[1].name, "other-one");
    assert_float_equal(f.endpoints[1].rate, 0, 1e-9);
    assert_true(isnan(f.endpoints[1].p95_s));
    top_data_fini(&f);
    close_world(&w);
}

/* ---- lines ---- */

static struct top_page view(struct world *w, const struct top_options *options)
{
    struct top_data f;
    struct top_page page;

    top_data_build(&f, &w->in);
    top_view(&f, options, &page);
    top_data_fini(&f);
    assert_true(page.count <= (size_t)options->height);
    for (size_t i = 0; i < page.count; i++)
        assert_true(text_width(page.lines[i].text) <= (size_t)options->width);
    return page;
}

static const struct top_line *line_with(const struct top_page *p,
                                        const char *word)
{
    for (size_t i = 0; i < p->count; i++)
        if (strstr(p->lines[i].text, word))
            return &p->lines[i];
    return NULL;
}

static int row_of(const struct top_page *p, const char *word)
{
    const struct top_line *l = line_with(p, word);

    return l ? (int)(l - p->lines) : -1;
}

static void a_process_that_is_silent_or_gone_is_shown_as_such(void **s)
{
    static const struct top_seen seen[] = {
        {"ingress", true, NULL},
        {"sequencer", true, "hub-2 (10.0.0.9:7470)"},
        {"deliverer-1", false, NULL}};
    struct top_options options = {80, 24, .keys = true, .note = ""};
    const struct top_line *l;
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    w.in.seen = seen;
    w.in.seen_count = 3;
    accepted(&w, 7, -100, 5, 1);
    accepted(&w, 7, -100, 20, 1);
    page = view(&w, &options);
    assert_int_equal(page.count, 24);
    assert_non_null(line_with(&page, "1 up, 1 silent, 1 down"));
    l = line_with(&page, "! sequencer@hub-2 ");
    assert_non_null(l);
    assert_non_null(strstr(l->text, "silent 20s"));
    assert_int_equal(l->colour, RED);
    l = line_with(&page, "! deliverer-1");
    assert_non_null(strstr(l->text, "down"));
    /* Trouble first. */
    assert_true(row_of(&page, "! deliverer-1") < row_of(&page, "  ingress"));
    assert_non_null(strstr(page.lines[23].text, "q quit"));
    top_page_fini(&page);
    close_world(&w);
}

static const char endpoint_replies[] =
    "[{\"name\":\"fine\",\"state\":\"active\",\"owner\":\"deliverer-1\","
    "  \"in_flight\":3,\"waiting\":10000,\"waiting_more\":true,"
    "  \"retrying\":4,\"halted_lanes\":0},"
    " {\"name\":\"gone\",\"state\":\"disabled\",\"owner\":null,"
    "  \"reason\":\"responded 410\",\"in_flight\":0,\"waiting\":7},"
    " {\"name\":\"halts\",\"state\":\"active\",\"owner\":\"d\","
    "  \"halted_lanes\":2,\"waiting\":5},"
    " {\"name\":\"unowned\",\"state\":\"active\",\"owner\":null,"
    "  \"waiting\":6},"
    " {\"name\":\"idle\",\"state\":\"active\",\"owner\":null,"
    "  \"waiting\":0,\"retrying\":0},"
    " {\"name\":\"rests\",\"state\":\"paused\",\"owner\":null,\"waiting\":0}]";

static void endpoints_are_sorted_by_trouble_or_as_asked(void **s)
{
    struct top_options options = {80, 24, .keys = true, .note = ""};
    struct frame *f = begin();
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    w.endpoints = json_loads(endpoint_replies, 0, NULL);
    w.in.endpoint_list = w.endpoints;
    value(f, "grapnel_endpoint_breaker_open", "broken", NULL, 1);
    value(f, "grapnel_endpoint_failing_seconds", "fails", NULL, 9);
    hear(w.collector, f, "deliverer-1", 7, WALL, WALL + 1, 1);
    w.in.endpoints = (const char *const[]){"broken", "fails", "fine", NULL};
    page = view(&w, &options);
    assert_true(row_of(&page, "! gone") > 0);
    assert_non_null(strstr(line_with(&page, "! gone")->text, "disabled: resp"));
    assert_non_null(strstr(line_with(&page, "! halts")->text, "2 halted"));
    assert_non_null(strstr(line_with(&page, "! broken")->text, "breaker open"));
    assert_non_null(strstr(line_with(&page, "! fails")->text, "failing"));
    assert_non_null(
        strstr(line_with(&page, "* unowned")->text, "no deliverer"));
    assert_null(strstr(line_with(&page, "  idle")->text, "no deliverer"));
    assert_non_null(strstr(line_with(&page, "* rests")->text, "paused"));
    assert_non_null(strstr(line_with(&page, "  fine")->text, " 10.0k+ "));
    assert_int_equal(row_of(&page, "! halts"), row_of(&page, "! gone") + 1);
    assert_int_equal(row_of(&page, "! broken"), row_of(&page, "! gone") + 2);
    assert_int_equal(row_of(&page, "! fails"), row_of(&page, "! gone") + 3);
    assert_int_equal(row_of(&page, "* unowned"), row_of(&page, "! gone") + 4);
    assert_int_equal(row_of(&page, "* rests"), row_of(&page, "! gone") + 5);
    assert_int_equal(row_of(&page, "  fine"), row_of(&page, "! gone") + 6);
    top_page_fini(&page);

    assert_true(top_sort_of('w', &options.sort));
    page = view(&w, &options);
    assert_non_null(line_with(&page, "*WAITING"));
    assert_true(row_of(&page, "  fine") < row_of(&page, "! gone"));
    assert_true(row_of(&page, "! gone") < row_of(&page, "* unowned"));
    top_page_fini(&page);
    assert_true(top_sort_of('n', &options.sort));
    page = view(&w, &options);
    assert_non_null(line_with(&page, "*ENDPOINT"));
    assert_true(row_of(&page, "! broken") < row_of(&page, "! fails"));
    top_page_fini(&page);
    assert_false(top_sort_of('x', &options.sort));
    close_world(&w);
}

static void many_endpoints_are_scrolled(void **s)
{
    struct top_options options = {80, 24, SORT_NAME, 1000, true, false, ""};
    const char *names[301] = {NULL};
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    for (int i = 0; i < 300; i++)
        names[i] = gr_printf("e%03d", i);
    w.in.endpoints = names;
    page = view(&w, &options);
    assert_non_null(line_with(&page, "e299"));
    assert_non_null(line_with(&page, "/300"));
    assert_null(line_with(&page, "e200"));
    assert_true(page.first > 280 && page.first < 300);
    top_page_fini(&page);
    options.first = 10;
    page = view(&w, &options);
    assert_non_null(line_with(&page, "e010"));
    assert_null(line_with(&page, "e009"));
    assert_int_equal(page.first, 10);
    top_page_fini(&page);
    for (int i = 0; i < 300; i++)
        free((char *)names[i]);
    close_world(&w);
}

static void gaps_and_alerts_can_t_drive_the_terminal(void **s)
{
    struct top_options options = {80, 24, .keys = true, .note = ""};
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    w.gaps = json_pack("[{s:s,s:s,s:s,s:i,s:i,s:s}]", "id", "gap_1", "source",
                       "plane", "workspace", "a\033[2Jb\nc", "from", 3, "to", 5,
                       "opened_at", "1970-01-12T13:46:39.000Z");
    w.alerts = json_pack("[{s:s,s:s,s:s},{s:s,s:s,s:s,s:s,s:s},{s:s,s:s}]",
                         "name", "lesser", "severity", "warning", "state",
                         "firing", "name", "dlq", "severity", "critical",
                         "state", "firing", "summary", "12 is above 10\033c",
                         "since", "1970-01-12T13:45:40.000Z", "name",
                         "ended-one", "state", "resolved");
    w.in.gap_list = w.gaps;
    w.in.alert_list = w.alerts;
    page = view(&w, &options);
    for (size_t i = 0; i < page.count; i++)
        assert_null(strpbrk(page.lines[i].text, "\033\n"));
    assert_non_null(line_with(&page, "a?[2Jb?c: 3-5, for 1s"));
    assert_non_null(line_with(&page, "! critical dlq"));
    assert_non_null(line_with(&page, "ALERTS  2 firing"));
    assert_true(row_of(&page, "critical dlq") < row_of(&page, "lesser"));
    assert_null(line_with(&page, "ended-one"));
    assert_int_equal(line_with(&page, "critical dlq")->colour, RED);
    top_page_fini(&page);
    close_world(&w);
}

static void processes_that_do_not_respond_are_named(void **s)
{
    struct top_options options = {80, 24, .keys = true, .note = ""};
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    w.in.sequencer_why = "not responding";
    w.in.console_why = "not running";
    page = view(&w, &options);
    assert_non_null(line_with(&page, "the sequencer cannot be reached: not"));
    assert_non_null(line_with(&page, "the console is not running"));
    top_page_fini(&page);
    close_world(&w);
}

static void top_fits_any_window(void **s)
{
    static const struct top_seen seen[] = {{"ingress", true, NULL}};
    static const int sizes[][2] = {{1, 1},   {10, 3},   {20, 7},  {40, 10},
                                   {80, 24}, {200, 60}, {80, 500}};
    struct top_page page;
    struct world w;

    (void)s;
    open_world(&w);
    w.in.seen = seen;
    w.in.seen_count = 1;
    w.in.endpoints = (const char *const[]){
        "an-endpoint-whose-name-is-longer-than-its-column-is-wide", NULL};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int help = 0; help < 2; help++) {
            struct top_options options = {sizes[i][0], sizes[i][1],
                                          .keys = true, .help = help,
                                          .note = "by each process"};

            page = view(&w, &options);
            top_page_fini(&page);
        }
    close_world(&w);
}

static void the_document_has_null_for_what_is_not_known(void **s)
{
    struct top_data f;
    struct world w;
    json_t *doc;

    (void)s;
    open_world(&w);
    w.in.endpoints = (const char *const[]){"crm", NULL};
    top_data_build(&f, &w.in);
    doc = top_data_json(&f);
    assert_non_null(doc);
    assert_true(json_is_null(
        json_object_get(json_object_get(doc, "rates"), "accepted_per_s")));
    assert_int_equal(json_array_size(json_object_get(doc, "endpoints")), 1);
    json_decref(doc);
    top_data_fini(&f);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_rate_is_of_the_last_ten_seconds_by_the_sender_s_clock),
        cmocka_unit_test(an_endpoint_s_first_numbers_are_a_rate_at_once),
        cmocka_unit_test(a_process_that_is_silent_or_gone_is_shown_as_such),
        cmocka_unit_test(endpoints_are_sorted_by_trouble_or_as_asked),
        cmocka_unit_test(many_endpoints_are_scrolled),
        cmocka_unit_test(gaps_and_alerts_can_t_drive_the_terminal),
        cmocka_unit_test(processes_that_do_not_respond_are_named),
        cmocka_unit_test(top_fits_any_window),
        cmocka_unit_test(the_document_has_null_for_what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
