/* Tests of metrics: bounded series by labels, histograms, and turns that are rolled
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "ipc.h"
#include "metrics.h"
#include <czmq.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ATTEMPTS, SECONDS, RETRYING };

static const int64_t bounds[] = {10, 100, 0};
static const struct metric_family families[] = {
    [ATTEMPTS] = {.name = "t_attempts_total",
                  .kind = METRIC_COUNTER,
                  .unit = "attempts",
                  .help = "h",
                  .labels = {"endpoint", "outcome"}},
    [SECONDS] = {.name = "t_seconds",
                 .kind = METRIC_HISTOGRAM,
                 .unit = "seconds",
                 .help = "h",
                 .labels = {"endpoint"},
                 .per = 1000,
                 .bounds = bounds},
    [RETRYING] = {.name = "t_retrying",
                  .kind = METRIC_GAUGE,
                  .unit = "tasks",
                  .help = "h",
                  .labels = {"endpoint"}},
    {0},
};
static const struct metric numbers[] = {
    {"t_things_total", METRIC_COUNTER, "things", "h"}, {0}};

struct rig {
    char dir[64];
    int64_t values[1];
    struct metrics *m;
    zframe_t *frame; /* what an unpacked one points into */
};

static int setup(void **state)
{
    struct rig *r = gr_alloc(sizeof *r);
    struct metrics_tables tables = {numbers, r->values, families, NULL};
    zsock_t *pub = zsock_new(ZMQ_PUB);

    snprintf(r->dir, sizeof r->dir, "/tmp/metrics-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    ipc_bind(pub, r->dir, "t-1", "metrics");
    r->m = metrics_open(pub, "t-1", "t", 7, 1000, &tables);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    char path[100];

    metrics_close(r->m);
    snprintf(path, sizeof path, "%s/t-1.metrics", r->dir);
    unlink(path);
    rmdir(r->dir);
    zframe_destroy(&r->frame);
    free(r);
    return 0;
}

/* The series `i` as compact JSON, or "" */
static const char *shown(struct rig *r, size_t i)
{
    static char text[400];
    json_t *all = metrics_series_json(r->m);
    char *s = json_dumps(json_array_get(all, i),
                         JSON_COMPACT | JSON_REAL_PRECISION(6));

    snprintf(text, sizeof text, "%s", s ? s : "");
    free(s);
    json_decref(all);
    return text;
}

static void a_series_is_found_again_by_its_labels(void **state)
{
    struct rig *r = *state;
    struct series *crm = METRIC_SERIES(r->m, ATTEMPTS, "crm", "dead");

    assert_ptr_equal(crm, METRIC_SERIES(r->m, ATTEMPTS, "crm", "dead"));
    assert_ptr_not_equal(crm, METRIC_SERIES(r->m, ATTEMPTS, "crm", "retrying"));
    /* Values that only run into each other are others. */
    assert_ptr_not_equal(METRIC_SERIES(r->m, ATTEMPTS, "a", "bc"),
                         METRIC_SERIES(r->m, ATTEMPTS, "ab", "c"));
    series_add(crm, 2);
    assert_string_equal(shown(r, 0),
                        "{\"name\":\"t_attempts_total\",\"labels\":{"
                        "\"endpoint\":\"crm\",\"outcome\":\"dead\"},"
                        "\"value\":2}");
}

static void a_histogram_counts_each_value_once_up_to_its_bound(void **state)
{
    struct rig *r = *state;
    struct series *s = METRIC_SERIES(r->m, SECONDS, "crm");
    static const int64_t values[] = {0, 10, 11, 100, 101, 5000};

    for (size_t i = 0; i < COUNT_OF(values); i++)
        series_observe(s, values[i]);
    assert_string_equal(shown(r, 0),
                        "{\"name\":\"t_seconds\",\"labels\":{\"endpoint\":"
                        "\"crm\"},\"counts\":[2,2,2],\"sum\":5.222}");
}

static void counts_of_a_rolled_back_turn_are_undone(void **state)
{
    struct rig *r = *state;
    struct series *n = METRIC_SERIES(r->m, ATTEMPTS, "crm", "dead");
    struct series *h = METRIC_SERIES(r->m, SECONDS, "crm");

    metrics_begin(r->m);
    r->values[0] = 5;
    series_add(n, 1);
    series_observe(h, 50);
    metrics_begin(r->m); /* the turn before was committed */
    r->values[0]++;
    for (int i = 0; i < 1000; i++) {
        series_add(n, 3);
        series_observe(h, 5);
    }
    metrics_undo(r->m);
    assert_int_equal(r->values[0], 5);
    assert_non_null(strstr(shown(r, 0), "\"value\":1}"));
    assert_non_null(strstr(shown(r, 1), "[0,1,0],\"sum\":0.05}"));
}

static void an_unmeasured_gauge_is_not_shown(void **state)
{
    struct rig *r = *state;

    metrics_measure(r->m);
    series_set(METRIC_SERIES(r->m, RETRYING, "crm"), 3);
    series_set(METRIC_SERIES(r->m, RETRYING, "erp"), 4);
    assert_non_null(strstr(shown(r, 1), "\"erp\"},\"value\":4}"));
    metrics_measure(r->m);
    series_set(METRIC_SERIES(r->m, RETRYING, "erp"), 5);
    assert_non_null(strstr(shown(r, 0), "\"erp\"},\"value\":5}"));
    assert_string_equal(shown(r, 1), "");
}

static void too_many_label_values_count_as_other(void **state)
{
    struct rig *r = *state;
    struct series *last, *other;
    char name[METRIC_LABEL_BYTES * 2];

    for (int i = 0; i < METRIC_SERIES_MAX; i++) {
        snprintf(name, sizeof name, "e%d", i);
        last = METRIC_SERIES(r->m, SECONDS, name);
    }
    other = METRIC_SERIES(r->m, SECONDS, "one more");
    assert_ptr_not_equal(last, other);
    assert_ptr_equal(other, METRIC_SERIES(r->m, SECONDS, "and another"));
    assert_ptr_equal(last, METRIC_SERIES(r->m, SECONDS, name));
    assert_non_null(strstr(shown(r, METRIC_SERIES_MAX), "\"other\""));
}

/* P2: the one that is in trouble is not hidden by the next that is not. */
static void other_is_the_largest_of_a_gauge(void **state)
{
    struct rig *r = *state;
    char name[METRIC_LABEL_BYTES];

    for (int i = 0; i < METRIC_SERIES_MAX; i++) {
        snprintf(name, sizeof name, "e%d", i);
        (void)METRIC_SERIES(r->m, RETRYING, name);
    }
    for (int last = 2; last > 0; last--) {
        metrics_measure(r->m);
        series_set(METRIC_SERIES(r->m, RETRYING, "one more"), 0);
        series_set(METRIC_SERIES(r->m, RETRYING, "and another"), last);
        series_set(METRIC_SERIES(r->m, RETRYING, "and the last"), 0);
        assert_non_null(
            strstr(shown(r, 0), last == 2 ? "\"value\":2}" : "\"value\":1}"));
    }
}

static void without_metrics_no_series_is_counted(void **state)
{
    struct series *s = METRIC_SERIES((struct metrics *)NULL, ATTEMPTS, "a",
                                     "b");

    (void)state;
    assert_null(s);
    series_add(s, 1);
    series_observe(s, 1);
    series_set(s, 1);
}

/* ---- frames ---- */

static const msgpack_object *at(const msgpack_object *map, const char *key)
{
    assert_int_equal(map->type, MSGPACK_OBJECT_MAP);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];

        if (kv->key.via.str.size == strlen(key) &&
            memcmp(kv->key.via.str.ptr, key, strlen(key)) == 0)
            return &kv->val;
    }
    fail_msg("no %s", key);
    return NULL;
}

/* Publishes until the subscription has arrived and the first frame with it. */
static void first_frame(struct rig *r, zsock_t *sub, msgpack_unpacked *out)
{
    int64_t mono = 0;

    for (int i = 0; i < 1000 && !r->frame; i++) {
        metrics_flush(r->m, mono += 1000);
        r->frame = zframe_recv(sub); /* waits 10 ms at most */
    }
    assert_non_null(r->frame);
    msgpack_unpacked_init(out);
    assert_int_equal(msgpack_unpack_next(out, (char *)zframe_data(r->frame),
                                         zframe_size(r->frame), NULL),
                     MSGPACK_UNPACK_SUCCESS);
}

static void many_series_are_sent_in_several_frames_of_one_time(void **state)
{
    struct rig *r = *state;
    zsock_t *sub = zsock_new(ZMQ_SUB);
    char name[64];
    msgpack_unpacked got;
    uint32_t seen;

    for (int i = 0; i < METRIC_SERIES_MAX; i++) {
        snprintf(name, sizeof name, "an-endpoint-with-a-name-%d", i);
        series_observe(METRIC_SERIES(r->m, SECONDS, name), 1);
        series_add(METRIC_SERIES(r->m, ATTEMPTS, name, "delivered"), 1);
    }
    zsock_set_subscribe(sub, "");
    zsock_set_rcvtimeo(sub, 10);
    assert_int_equal(zsock_connect(sub, "ipc://%s/t-1.metrics", r->dir), 0);
    first_frame(r, sub, &got);
    assert_int_equal(at(&got.data, "epoch")->via.u64, 7);
    seen = at(&got.data, "series")->via.array.size;
    assert_in_range(seen, 100, 2 * METRIC_SERIES_MAX - 1);
    assert_int_equal(at(&got.data, "about")->via.map.size, 4);
    msgpack_unpacked_destroy(&got);
    zsock_destroy(&sub);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_series_is_found_again_by_its_labels),
        T(a_histogram_counts_each_value_once_up_to_its_bound),
        T(counts_of_a_rolled_back_turn_are_undone),
        T(an_unmeasured_gauge_is_not_shown),
        T(too_many_label_values_count_as_other),
        T(other_is_the_largest_of_a_gauge),
        cmocka_unit_test(without_metrics_no_series_is_counted),
        T(many_series_are_sent_in_several_frames_of_one_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
