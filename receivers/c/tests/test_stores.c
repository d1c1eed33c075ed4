/* Each store: what it says of Grapnel's deliveries, what it has stored after an error, a rollback or
 * a crash, and that threads do not disturb each other.
 *
 * GRAPNEL_TEST_POSTGRES (postgresql://…) and GRAPNEL_TEST_REDIS (unix://…) name servers whose data
 * the tests may delete. */
#include "support.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_SQLITE
#include <sqlite3.h>
#endif
#ifdef WITH_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef WITH_REDIS
#include <hiredis/hiredis.h>
#endif

enum { THREADS = 6 };

/* One kind of store. */
struct kind {
    const char *name;
    struct grapnel_store *(*fresh)(void);  /* with nothing in it */
    struct grapnel_store *(*reopen)(void); /* the same data */
    int (*count_work)(void);               /* NULL: it has no transactions */
};

/* Of a test: the clock, and what the handler does. */
struct bench {
    const struct kind *kind;
    struct grapnel_store *store;
    struct grapnel_receiver *receiver;
    int64_t now_s;
    int calls, returns;
    struct grapnel_check seen;
};

static int64_t the_time(void *arg)
{
    return *(int64_t *)arg;
}

static void open_receiver(struct bench *b, struct grapnel_store *store)
{
    b->store = store;
    b->receiver = grapnel_receiver_new(store, scenario_key(), NULL);
    assert_non_null(b->receiver);
    b->now_s = scenario_now_s();
    grapnel_receiver_set_clock(b->receiver, the_time, &b->now_s);
    grapnel_receiver_set_tolerance(b->receiver, 1000000000);
}

static void begin(void **state, struct bench *b)
{
    *b = (struct bench){.kind = *state};
    open_receiver(b, b->kind->fresh());
}

static void end(struct bench *b)
{
    grapnel_receiver_free(b->receiver);
    grapnel_store_free(b->store);
}

static int count_call(void *arg, const struct grapnel_event *e,
                      const struct grapnel_check *check,
                      const struct grapnel_transaction *t)
{
    struct bench *b = arg;

    assert_true(e->id[0] && t);
    b->calls++;
    b->seen = *check;
    return b->returns;
}

static enum grapnel_status receive(struct bench *b, const char *name, size_t n,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error)
{
    struct request q = delivery(name, n);
    enum grapnel_status status = grapnel_receive(b->receiver, q.headers,
                                                 q.count, q.body, q.body_bytes,
                                                 handle, arg, check, error);

    request_free(&q);
    return status;
}

static struct grapnel_check take(struct bench *b, const char *name, size_t n)
{
    struct grapnel_check c;
    struct grapnel_error error = {""};

    b->calls = 0;
    if (receive(b, name, n, count_call, b, &c, &error))
        fail_msg("%s %zu: %s", name, n, error.text);
    assert_int_equal(b->calls, c.result != GRAPNEL_DUPLICATE);
    if (b->calls)
        assert_memory_equal(&c, &b->seen, sizeof c);
    return c;
}

static void expect(struct bench *b, const char *name, size_t n,
                   enum grapnel_result result)
{
    struct grapnel_check c = take(b, name, n);

    assert_string_equal(grapnel_result_name(c.result),
                        grapnel_result_name(result));
}

static struct grapnel_missing_list missing(struct bench *b, int64_t older_s)
{
    struct grapnel_missing_list list = {0};
    struct grapnel_error error = {""};

    if (grapnel_missing(b->receiver, older_s, &list, &error))
        fail_msg("%s", error.text);
    return list;
}

static void expect_missing(struct bench *b, int64_t older_s, size_t count)
{
    struct grapnel_missing_list list = missing(b, older_s);

    assert_int_equal(list.count, count);
    grapnel_missing_free(&list);
}

/* ---- What all stores do ---- */

static int64_t number(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key)); /* null: 0 */
}

static void compare(const char *name, size_t i, json_t *want,
                    const struct grapnel_check *c)
{
    const char *conflict = json_string_value(json_object_get(want, "conflict"));
    const char *result = json_string_value(json_object_get(want, "result"));

    if (strcmp(grapnel_result_name(c->result), result) != 0 ||
        c->missing != number(want, "missing") ||
        c->after != number(want, "after") ||
        c->unsure != json_is_true(json_object_get(want, "unsure")) ||
        c->filled != json_is_true(json_object_get(want, "filled")) ||
        strcmp(c->conflict, conflict ? conflict : "") != 0)
        fail_msg("%s %zu: %s, missing %lld after %lld, unsure %d, filled %d, "
                 "conflict \"%s\"",
                 name, i, grapnel_result_name(c->result), (long long)c->missing,
                 (long long)c->after, c->unsure, c->filled, c->conflict);
}

static void every_scenario(void **state)
{
    json_t *s, *want;
    size_t i, k;

    json_array_foreach(json_object_get(vectors(), "order"), i, s)
    {
        const char *name = json_string_value(json_object_get(s, "name"));
        struct bench b;
        struct grapnel_missing_list list;

        begin(state, &b);
        json_array_foreach(json_object_get(s, "deliveries"), k, want)
        {
            struct grapnel_check c = take(&b, name, k);

            compare(name, k, want, &c);
        }
        list = missing(&b, 0);
        assert_int_equal(list.count,
                         json_array_size(json_object_get(s, "missing")));
        json_array_foreach(json_object_get(s, "missing"), k, want)
        {
            const struct grapnel_missing *m = &list.items[k];

            assert_string_equal(m->series,
                                json_string_value(json_array_get(want, 0)));
            assert_string_equal(m->workspace,
                                json_string_value(json_array_get(want, 1)));
            assert_int_equal(m->number,
                             json_integer_value(json_array_get(want, 2)));
            assert_int_equal(m->unsure, json_is_true(json_array_get(want, 3)));
        }
        grapnel_missing_free(&list);
        end(&b);
    }
}

static void nothing_is_stored_after_an_error(void **state)
{
    static const size_t failing[] = {0, 0, 2};
    struct bench b;
    struct grapnel_error error;

    begin(state, &b);
    b.returns = 7;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            receive(&b, "a loss", failing[i], count_call, &b, NULL, &error),
            GRAPNEL_FAILED);
        assert_non_null(strstr(error.text, "returned 7"));
    }
    b.returns = 0;
    expect(&b, "a loss", 0, GRAPNEL_OK);
    expect(&b, "a loss", 1, GRAPNEL_OK);
    expect_missing(&b, 0, 0);
    end(&b);
}

static void it_only_deduplicates_if_asked(void **state)
{
    struct bench b;

    begin(state, &b);
    grapnel_receiver_set_order(b.receiver, false);
    expect(&b, "a loss", 0, GRAPNEL_OK);
    expect(&b, "a loss", 2, GRAPNEL_OK);
    expect(&b, "a loss", 2, GRAPNEL_DUPLICATE);
    expect_missing(&b, 0, 0);
    end(&b);
}

static void it_waits_before_an_event_is_missing_and_forgets(void **state)
{
    struct bench b;
    struct grapnel_missing_list list;
    int64_t start_s;

    begin(state, &b);
    start_s = b.now_s;
    expect(&b, "a loss", 0, GRAPNEL_OK);
    b.now_s += 10;
    expect(&b, "a loss", 2, GRAPNEL_GAP_DETECTED);
    b.now_s += 100;
    expect_missing(&b, 101, 0);
    list = missing(&b, 100);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].workspace, "w");
    assert_int_equal(list.items[0].number, 3);
    assert_int_equal(list.items[0].since_s, start_s + 10);
    assert_false(list.items[0].unsure);
    grapnel_missing_free(&list);
    b.now_s = start_s + 9 + GRAPNEL_KEEP_S;
    assert_int_equal(grapnel_forget(b.receiver, NULL), GRAPNEL_DONE);
    expect_missing(&b, 0, 1);
    b.now_s = start_s + 11 + GRAPNEL_KEEP_S; /* raises the floor to 4 */
    assert_int_equal(grapnel_forget(b.receiver, NULL), GRAPNEL_DONE);
    expect_missing(&b, 0, 0);
    b.now_s = start_s + 110;
    expect(&b, "a loss", 3, GRAPNEL_OK);
    end(&b);
}

/* A handler that waits until the test lets it go. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool inside, released;
};

#define GATE                                                      \
    {                                                             \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 \
    }

static int wait_inside(void *arg, const struct grapnel_event *e,
                       const struct grapnel_check *check,
                       const struct grapnel_transaction *t)
{
    struct gate *g = arg;

    (void)e;
    (void)check;
    (void)t;
    pthread_mutex_lock(&g->mutex);
    g->inside = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->released)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
    return 0;
}

static void wait_until_inside(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    while (!g->inside)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void release(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->released = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

/* One request in a thread. */
struct caller {
    struct bench *b;
    const char *name;
    size_t n;
    grapnel_handler handle;
    void *arg;
    pthread_t thread;
    struct request request; /* the parser of the vectors has no threads */
    enum grapnel_status status;
    struct grapnel_check check;
    bool ended;
};

static void *call(void *arg)
{
    struct caller *c = arg;

    c->status = grapnel_receive(
        c->b->receiver, c->request.headers, c->request.count, c->request.body,
        c->request.body_bytes, c->handle, c->arg, &c->check, NULL);
    __atomic_store_n(&c->ended, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static void start(struct caller *c)
{
    c->request = delivery(c->name, c->n);
    assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
}

static void join(struct caller *c)
{
    pthread_join(c->thread, NULL);
    request_free(&c->request);
}

static void pause_ms(int ms)
{
    struct timespec t = {0, ms * 1000000L};

    nanosleep(&t, NULL);
}

static void the_same_event_twice_at_once(void **state)
{
    struct bench b;
    struct gate g = GATE;
    struct caller first = {
        .b = &b, .name = "in order", .handle = wait_inside, .arg = &g};
    struct caller second = {.b = &b, .name = "in order", .handle = do_nothing};

    begin(state, &b);
    start(&first);
    wait_until_inside(&g);
    start(&second);
    pause_ms(50);
    release(&g);
    join(&first);
    join(&second);
    assert_int_equal(first.status, GRAPNEL_DONE);
    assert_int_equal(first.check.result, GRAPNEL_OK);
    if (second.status != GRAPNEL_BUSY) {
        assert_int_equal(second.status, GRAPNEL_DONE);
        assert_int_equal(second.check.result, GRAPNEL_DUPLICATE);
    }
    expect(&b, "in order", 0, GRAPNEL_DUPLICATE);
    end(&b);
}

/* An event as grapnel_verify() makes it. */
static struct grapnel_event made(char id[64], int n, const char *workspace)
{
    snprintf(id, 64, "evt_%s_%d", workspace, n);
    return (struct grapnel_event){.id = id,
                                  .workspace = workspace,
                                  .series = "1",
                                  .numbered = true,
                                  .sequence = n,
                                  .previous = n - 1};
}

enum { EVENTS = 40 };

struct crowd {
    struct bench *b;
    int calls[2][EVENTS + 1];
};

static int count_once(void *arg, const struct grapnel_event *e,
                      const struct grapnel_check *check,
                      const struct grapnel_transaction *t)
{
    struct crowd *c = arg;

    (void)check;
    (void)t;
    __atomic_fetch_add(&c->calls[e->workspace[0] == 'b'][e->sequence], 1,
                       __ATOMIC_SEQ_CST);
    return 0;
}

static void *take_all(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < 2 * EVENTS; i++) {
        char id[64];
        struct grapnel_event e = made(id, 1 + i / 2, i % 2 ? "b" : "a");
        struct grapnel_error error = {""};
        enum grapnel_status status;

        do
            status = grapnel_process(c->b->receiver, &e, count_once, c, NULL,
                                     &error);
        while (status == GRAPNEL_BUSY);
        if (status)
            return strdup(error.text);
    }
    return NULL;
}

static void threads_process_each_event_once(void **state)
{
    struct bench b;
    struct crowd c = {.b = &b};
    pthread_t threads[THREADS];

    begin(state, &b);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &c), 0);
    for (int i = 0; i < THREADS; i++) {
        void *said;

        pthread_join(threads[i], &said);
        if (said)
            fail_msg("%s", (char *)said);
    }
    for (int i = 1; i <= EVENTS; i++)
        assert_true(c.calls[0][i] == 1 && c.calls[1][i] == 1);
    expect_missing(&b, 0, 0);
    end(&b);
}

static unsigned drawn(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 16) % below;
}

/* Event 1 to 60 of workspace a or b, in one of two series. What a number names as the previous
 * one does not change when it is sent again. */
static struct grapnel_event drawn_event(unsigned *seed, int step, char id[64])
{
    static const char *const series[] = {"1", "2"};
    struct grapnel_event e = made(id, 1 + (int)drawn(seed, 60),
                                  drawn(seed, 4) ? "a" : "b");
    unsigned own = (unsigned)e.sequence;

    e.series = series[step > 100 && drawn(seed, 4)];
    own += (e.workspace[0] == 'b') + 2 * (e.series[0] == '2');
    e.previous = e.sequence - 1 - drawn(&own, 3);
    if (e.previous < 0)
        e.previous = 0;
    e.replay = step % 50 > 20 && drawn(seed, 3) == 0;
    e.numbered = drawn(seed, 10) != 0;
    if (e.series[0] == '2' && !drawn(seed, 8)) /* another event, same number */
        snprintf(id, 64, "evt_again_%lld", (long long)e.sequence);
    return e;
}

/* The same random history in this store and in memory. */
static void it_agrees_with_the_memory_store(void **state)
{
    struct bench m = {.kind = NULL}, b;
    struct grapnel_missing_list mine, other;
    unsigned seed = 1;

    begin(state, &b);
    open_receiver(&m, grapnel_memory_store_new(0, 0));
    for (int i = 0; i < 400; i++) {
        char id[64];
        struct grapnel_event e = drawn_event(&seed, i, id);
        struct grapnel_check c, want;

        b.now_s = m.now_s = m.now_s + drawn(&seed, 3);
        assert_int_equal(
            grapnel_process(m.receiver, &e, do_nothing, NULL, &want, NULL),
            GRAPNEL_DONE);
        assert_int_equal(
            grapnel_process(b.receiver, &e, do_nothing, NULL, &c, NULL),
            GRAPNEL_DONE);
        if (c.result != want.result || c.missing != want.missing ||
            c.after != want.after || c.unsure != want.unsure ||
            c.filled != want.filled || strcmp(c.conflict, want.conflict) != 0)
            fail_msg("step %d: %s in series %s, number %lld after %lld: %s, "
                     "filled %d, missing %lld here, and %s, %d, %lld in memory",
                     i, id, e.series, (long long)e.sequence,
                     (long long)e.previous, grapnel_result_name(c.result),
                     c.filled, (long long)c.missing,
                     grapnel_result_name(want.result), want.filled,
                     (long long)want.missing);
    }
    mine = missing(&b, 0);
    other = missing(&m, 0);
    assert_true(mine.count > 3);
    assert_int_equal(mine.count, other.count);
    for (size_t i = 0; i < mine.count; i++)
        assert_int_equal(mine.items[i].since_s, other.items[i].since_s);
    grapnel_missing_free(&mine);
    grapnel_missing_free(&other);
    end(&m);
    end(&b);
}

/* ---- What stores with transactions do ---- */

static bool run_sql(const struct grapnel_transaction *t, const char *text)
{
    bool done = false;

#ifdef WITH_SQLITE
    if (t->sqlite)
        done = sqlite3_exec(t->sqlite, text, NULL, NULL, NULL) == SQLITE_OK;
#endif
#ifdef WITH_POSTGRES
    if (t->postgres) {
        PGresult *result = PQexec(t->postgres, text);

        done = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    }
#endif
    return done;
}

static int insert_work(void *arg, const struct grapnel_event *e,
                       const struct grapnel_check *check,
                       const struct grapnel_transaction *t)
{
    (void)e;
    (void)check;
    assert_true(run_sql(t, "INSERT INTO work VALUES ('x')"));
    return arg ? *(int *)arg : 0;
}

static void work_and_event_are_one_transaction(void **state)
{
    struct bench b;
    struct grapnel_check c;
    int fails = 1;

    begin(state, &b);
    assert_int_equal(
        receive(&b, "in order", 0, insert_work, &fails, NULL, NULL),
        GRAPNEL_FAILED);
    assert_int_equal(b.kind->count_work(), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            receive(&b, "in order", 0, insert_work, NULL, &c, NULL),
            GRAPNEL_DONE);
        assert_int_equal(c.result, i ? GRAPNEL_DUPLICATE : GRAPNEL_OK);
        assert_int_equal(b.kind->count_work(), 1);
    }
    end(&b);
}

static int die(void *arg, const struct grapnel_event *e,
               const struct grapnel_check *check,
               const struct grapnel_transaction *t)
{
    insert_work(arg, e, check, t);
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_kill_between_work_and_commit_leaves_neither(void **state)
{
    struct bench b;
    int how = 0;
    pid_t child;

    begin(state, &b);
    child = fork();
    assert_true(child >= 0);
    if (!child) { /* with connections of its own */
        struct bench mine = {.kind = b.kind};

        open_receiver(&mine, b.kind->reopen());
        receive(&mine, "in order", 0, die, NULL, NULL, NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    assert_int_equal(b.kind->count_work(), 0);
    assert_int_equal(receive(&b, "in order", 0, insert_work, NULL, NULL, NULL),
                     GRAPNEL_DONE);
    assert_int_equal(b.kind->count_work(), 1);
    end(&b);
}

/* Else both would be `ok`, and the older one could overwrite the newer one's work. */
static void an_older_event_waits_for_the_newer_one(void **state)
{
    const char *name = "a loss, sent again";
    struct bench b;
    struct gate g = GATE;
    struct caller newer = {
        .b = &b, .name = name, .n = 1, .handle = wait_inside, .arg = &g};
    struct caller older = {.b = &b, .name = name, .n = 3, .handle = do_nothing};

    begin(state, &b);
    expect(&b, name, 0, GRAPNEL_OK);
    start(&newer);
    wait_until_inside(&g);
    start(&older);
    pause_ms(100);
    assert_false(__atomic_load_n(&older.ended, __ATOMIC_SEQ_CST));
    release(&g);
    join(&newer);
    join(&older);
    assert_int_equal(newer.status, GRAPNEL_DONE);
    assert_int_equal(newer.check.result, GRAPNEL_GAP_DETECTED);
    assert_int_equal(older.status, GRAPNEL_DONE);
    assert_int_equal(older.check.result, GRAPNEL_OLD_EVENT);
    end(&b);
}

static int end_it(void *arg, const struct grapnel_event *e,
                  const struct grapnel_check *check,
                  const struct grapnel_transaction *t)
{
    (void)e;
    (void)check;
    assert_true(run_sql(t, arg));
    return 0;
}

static void a_handler_that_ends_the_transaction_is_an_error(void **state)
{
    struct bench b;
    struct grapnel_error error;

    begin(state, &b);
    assert_int_equal(
        receive(&b, "in order", 0, end_it, "ROLLBACK", NULL, &error),
        GRAPNEL_FAILED);
    assert_non_null(strstr(error.text, "ended in the handler"));
    expect(&b, "in order", 0, GRAPNEL_OK);
    end(&b);
}

static struct grapnel_event event_of(struct bench *b, struct request *q,
                                     struct grapnel_event **owned)
{
    *q = delivery("in order", 0);
    assert_int_equal(grapnel_verify(b->receiver, q->headers, q->count, q->body,
                                    q->body_bytes, owned, NULL),
                     GRAPNEL_DONE);
    return **owned;
}

static void join_transaction(struct bench *b, struct grapnel_transaction *t)
{
    static const enum grapnel_result results[] = {GRAPNEL_OK, GRAPNEL_OK,
                                                  GRAPNEL_DUPLICATE};
    const struct grapnel_transaction nothing = {NULL, NULL, NULL};
    struct grapnel_event *owned;
    struct request q;
    struct grapnel_event e = event_of(b, &q, &owned);
    struct grapnel_error error;

    assert_int_equal(grapnel_check(b->receiver, &e, t, NULL, &error),
                     GRAPNEL_INVALID);
    assert_non_null(strstr(error.text, "no transaction has begun"));
    assert_int_equal(grapnel_check(b->receiver, &e, &nothing, NULL, NULL),
                     GRAPNEL_INVALID);
    assert_int_equal(grapnel_check(b->receiver, &e, NULL, NULL, NULL),
                     GRAPNEL_INVALID);
    for (int i = 0; i < 3; i++) {
        struct grapnel_check c;

        assert_true(run_sql(t, "BEGIN"));
        assert_int_equal(grapnel_check(b->receiver, &e, t, &c, NULL),
                         GRAPNEL_DONE);
        assert_int_equal(c.result, results[i]);
        assert_true(run_sql(t, "INSERT INTO work VALUES ('x')"));
        assert_true(run_sql(t, i == 1 ? "COMMIT" : "ROLLBACK"));
    }
    assert_int_equal(b->kind->count_work(), 1);
    grapnel_event_free(owned);
    request_free(&q);
}

/* ---- Memory ---- */

static struct grapnel_store *fresh_memory(void)
{
    struct grapnel_store *store = grapnel_memory_store_new(0, 0);

    assert_non_null(store);
    assert_int_equal(grapnel_store_create_tables(store, NULL), GRAPNEL_DONE);
    return store;
}

static void memory_forgets_by_itself(void **state)
{
    struct bench b = {.kind = *state};

    open_receiver(&b, grapnel_memory_store_new(100, 0));
    expect(&b, "a loss", 0, GRAPNEL_OK);
    b.now_s += 100;
    expect(&b, "a loss", 0, GRAPNEL_DUPLICATE);
    b.now_s += 1;
    expect(&b, "a loss", 3, GRAPNEL_GAP_DETECTED);
    expect(&b, "a loss", 0, GRAPNEL_OLD_EVENT); /* no longer a duplicate */
    end(&b);
}

static void memory_is_bounded(void **state)
{
    struct bench b = {.kind = *state};
    char workspace[32], id[64];
    struct grapnel_check c;

    open_receiver(&b, grapnel_memory_store_new(0, 50));
    for (int i = 0; i < 2000; i++) {
        struct grapnel_event e;

        snprintf(workspace, sizeof workspace, "w%d", i / 2);
        e = made(id, 1 + i % 2, workspace);
        assert_int_equal(
            grapnel_process(b.receiver, &e, do_nothing, NULL, &c, NULL),
            GRAPNEL_DONE);
        assert_int_equal(c.result, GRAPNEL_OK);
    }
    for (int i = 0; i < 2; i++) { /* the first one is forgotten, the last not */
        struct grapnel_event e;

        snprintf(workspace, sizeof workspace, "w%d", i ? 999 : 0);
        e = made(id, 1, workspace);
        assert_int_equal(
            grapnel_process(b.receiver, &e, do_nothing, NULL, &c, NULL),
            GRAPNEL_DONE);
        assert_int_equal(c.result == GRAPNEL_DUPLICATE, i);
    }
    end(&b);
}

static void memory_joins_no_transaction(void **state)
{
    struct bench b;
    struct grapnel_event *owned;
    struct request q;
    struct grapnel_error error;
    struct grapnel_event e;

    begin(state, &b);
    e = event_of(&b, &q, &owned);
    assert_int_equal(grapnel_check(b.receiver, &e, NULL, NULL, &error),
                     GRAPNEL_INVALID);
    assert_non_null(strstr(error.text, "grapnel_process()"));
    grapnel_event_free(owned);
    request_free(&q);
    end(&b);
}

/* ---- SQLite ---- */

#ifdef WITH_SQLITE
static char folder[] = "/tmp/grapnel-receiver-XXXXXX";
static char path[100];

static struct grapnel_store *reopen_sqlite(void)
{
    struct grapnel_error error = {""};
    struct grapnel_store *store = grapnel_sqlite_store_new(path, 30000, &error);

    if (!store)
        fail_msg("%s", error.text);
    return store;
}

static sqlite3 *open_sqlite(void)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static struct grapnel_store *fresh_sqlite(void)
{
    struct grapnel_store *store;
    sqlite3 *db;

    unlink(path);
    db = open_sqlite();
    assert_int_equal(
        sqlite3_exec(db, "CREATE TABLE work (id TEXT)", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    store = reopen_sqlite();
    for (int i = 0; i < 2; i++)
        assert_int_equal(grapnel_store_create_tables(store, NULL),
                         GRAPNEL_DONE);
    return store;
}

static int count_sqlite(void)
{
    sqlite3 *db = open_sqlite();
    sqlite3_stmt *s;
    int count;

    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM work", -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    count = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return count;
}

static void sqlite_joins_your_transaction(void **state)
{
    struct bench b;
    struct grapnel_transaction t = {NULL, NULL, NULL};

    begin(state, &b);
    t.sqlite = open_sqlite();
    join_transaction(&b, &t);
    sqlite3_close(t.sqlite);
    end(&b);
}

static void sqlite_says_what_failed(void **state)
{
    struct bench b;
    struct grapnel_error error;
    struct grapnel_store *quick;
    sqlite3 *other;
    struct grapnel_receiver *kept;

    begin(state, &b);
    kept = b.receiver;
    other = open_sqlite();
    assert_null(grapnel_sqlite_store_new("/nowhere/x.db", 0, &error));
    assert_non_null(strstr(error.text, "/nowhere/x.db"));
    quick = grapnel_sqlite_store_new(path, 1, &error);
    assert_non_null(quick);
    b.receiver = grapnel_receiver_new(quick, scenario_key(), NULL);
    grapnel_receiver_set_clock(b.receiver, the_time, &b.now_s);
    sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    assert_int_equal(receive(&b, "in order", 0, count_call, &b, NULL, &error),
                     GRAPNEL_FAILED);
    assert_non_null(strstr(error.text, "longer than busy_ms"));
    sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
    expect(&b, "in order", 0, GRAPNEL_OK);
    sqlite3_exec(other, "DROP TABLE grapnel_events", NULL, NULL, NULL);
    assert_int_equal(receive(&b, "in order", 0, count_call, &b, NULL, &error),
                     GRAPNEL_FAILED);
    assert_non_null(strstr(error.text, "no such table"));
    grapnel_receiver_free(b.receiver);
    b.receiver = kept;
    grapnel_store_free(quick);
    sqlite3_close(other);
    end(&b);
}
#endif

/* ---- PostgreSQL ---- */

#ifdef WITH_POSTGRES
static PGconn *open_postgres(void)
{
    PGconn *db = PQconnectdb(getenv("GRAPNEL_TEST_POSTGRES"));

    if (PQstatus(db) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(db));
    return db;
}

static void exec_postgres(PGconn *db, const char *text)
{
    PGresult *result = PQexec(db, text);

    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(db));
    PQclear(result);
}

static struct grapnel_store *reopen_postgres(void)
{
    return grapnel_postgres_store_new(getenv("GRAPNEL_TEST_POSTGRES"), 4, NULL);
}

static struct grapnel_store *fresh_postgres(void)
{
    struct grapnel_store *store = reopen_postgres();
    struct grapnel_error error = {""};
    PGconn *db = open_postgres();

    exec_postgres(db, "SET client_min_messages = warning");
    exec_postgres(db, "DROP TABLE IF EXISTS work, grapnel_events, "
                      "grapnel_series, grapnel_numbers");
    exec_postgres(db, "CREATE TABLE work (id TEXT)");
    PQfinish(db);
    for (int i = 0; i < 2; i++) {
        if (grapnel_store_create_tables(store, &error))
            fail_msg("%s", error.text);
    }
    return store;
}

static int count_postgres(void)
{
    PGconn *db = open_postgres();
    PGresult *result = PQexec(db, "SELECT count(*) FROM work");
    int count = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);

    PQclear(result);
    PQfinish(db);
    return count;
}

static void postgres_joins_your_transaction(void **state)
{
    struct bench b;
    struct grapnel_transaction t = {NULL, NULL, NULL};

    begin(state, &b);
    t.postgres = open_postgres();
    join_transaction(&b, &t);
    PQfinish(t.postgres);
    end(&b);
}

static int fail_silently(void *arg, const struct grapnel_event *e,
                         const struct grapnel_check *check,
                         const struct grapnel_transaction *t)
{
    (void)arg;
    (void)e;
    (void)check;
    assert_false(run_sql(t, "INSERT INTO nowhere VALUES ('x')"));
    return 0;
}

/* PostgreSQL says success to a COMMIT that rolls back. */
static void an_ignored_error_of_postgres_is_not_a_commit(void **state)
{
    struct bench b;
    struct grapnel_error error;

    begin(state, &b);
    assert_int_equal(
        receive(&b, "in order", 0, fail_silently, NULL, NULL, &error),
        GRAPNEL_FAILED);
    assert_non_null(strstr(error.text, "COMMIT ended as ROLLBACK"));
    expect(&b, "in order", 0, GRAPNEL_OK);
    end(&b);
}

static void a_lost_connection_of_postgres_is_replaced(void **state)
{
    struct bench b;
    PGconn *db;

    begin(state, &b);
    expect(&b, "in order", 0, GRAPNEL_OK);
    db = open_postgres();
    exec_postgres(db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                      "WHERE pid <> pg_backend_pid() AND backend_type = "
                      "'client backend'");
    PQfinish(db);
    expect(&b, "in order", 1, GRAPNEL_OK);
    end(&b);
}

static void postgres_says_what_failed(void **state)
{
    struct bench b = {.kind = *state};
    struct grapnel_error error;

    assert_null(grapnel_postgres_store_new("", 0, &error));
    assert_non_null(strstr(error.text, "1 to 1000"));
    open_receiver(&b, grapnel_postgres_store_new("host=/nowhere", 1, NULL));
    for (int i = 0; i < 2; i++) { /* it gives back what it could not open */
        assert_int_equal(
            receive(&b, "in order", 0, count_call, &b, NULL, &error),
            GRAPNEL_FAILED);
        assert_non_null(strstr(error.text, "/nowhere"));
    }
    assert_int_equal(b.calls, 0);
    end(&b);
}
#endif

/* ---- Redis ---- */

#ifdef WITH_REDIS
static struct redisContext *connect_redis(void *arg)
{
    struct timeval timeout = {5, 0};
    const char *uri = getenv("GRAPNEL_TEST_REDIS");

    (void)arg;
    return redisConnectUnixWithTimeout(uri + strlen("unix://"), timeout);
}

static struct grapnel_store *open_redis(int64_t lease_s)
{
    const struct grapnel_redis_options options = {
        .connect = connect_redis, .connections_max = 4, .lease_s = lease_s};

    return grapnel_redis_store_new(&options, NULL);
}

static void command_redis(const char *text)
{
    redisContext *c = connect_redis(NULL);
    redisReply *reply = redisCommand(c, text);

    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    redisFree(c);
}

static struct grapnel_store *reopen_redis(void)
{
    return open_redis(0);
}

static struct grapnel_store *fresh_redis(void)
{
    command_redis("FLUSHALL");
    return reopen_redis();
}

static int die_at_once(void *arg, const struct grapnel_event *e,
                       const struct grapnel_check *check,
                       const struct grapnel_transaction *t)
{
    (void)arg;
    (void)e;
    (void)check;
    (void)t;
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_claim_of_a_dead_process_ends(void **state)
{
    struct bench b;
    enum grapnel_status status;
    int busy = 0, how;
    pid_t child;

    begin(state, &b);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct bench mine = {.kind = b.kind};

        open_receiver(&mine, open_redis(1));
        receive(&mine, "in order", 0, die_at_once, NULL, NULL, NULL);
        _exit(1);
    }
    waitpid(child, &how, 0);
    while ((status = receive(&b, "in order", 0, count_call, &b, NULL, NULL)) ==
           GRAPNEL_BUSY)
        busy++;
    assert_int_equal(status, GRAPNEL_DONE);
    assert_true(busy > 0);
    assert_int_equal(b.calls, 1);
    expect(&b, "in order", 0, GRAPNEL_DUPLICATE);
    end(&b);
}

static void a_lost_connection_of_redis_is_replaced(void **state)
{
    struct bench b;

    begin(state, &b);
    expect(&b, "in order", 0, GRAPNEL_OK);
    command_redis("CLIENT KILL TYPE normal SKIPME yes");
    expect(&b, "in order", 1, GRAPNEL_OK);
    end(&b);
}

static struct redisContext *connect_nowhere(void *arg)
{
    return arg ? NULL : redisConnectUnix("/nowhere");
}

static void redis_says_what_failed(void **state)
{
    struct grapnel_redis_options options = {.connect = connect_nowhere};
    struct bench b;
    struct grapnel_error error;

    begin(state, &b);
    assert_null(grapnel_redis_store_new(&options, &error));
    assert_non_null(strstr(error.text, "1 to 1000"));
    command_redis("SET {grapnel}:spaces text");
    assert_int_equal(receive(&b, "in order", 0, count_call, &b, NULL, &error),
                     GRAPNEL_FAILED);
    assert_non_null(strstr(error.text, "WRONGTYPE"));
    end(&b);
    options.connections_max = 1;
    for (int i = 0; i < 2; i++) {
        options.arg = i ? &options : NULL;
        open_receiver(&b, grapnel_redis_store_new(&options, NULL));
        assert_int_equal(
            receive(&b, "in order", 1, count_call, &b, NULL, &error),
            GRAPNEL_FAILED);
        assert_non_null(strstr(error.text, "cannot connect"));
        end(&b);
    }
}
#endif

/* ---- */

#define ALL(kind)                                                       \
    T(kind, every_scenario), T(kind, nothing_is_stored_after_an_error), \
        T(kind, it_only_deduplicates_if_asked),                         \
        T(kind, it_waits_before_an_event_is_missing_and_forgets),       \
        T(kind, the_same_event_twice_at_once),                          \
        T(kind, threads_process_each_event_once),                       \
        T(kind, it_agrees_with_the_memory_store)
#define SQL(kind)                                               \
    T(kind, work_and_event_are_one_transaction),                \
        T(kind, a_kill_between_work_and_commit_leaves_neither), \
        T(kind, an_older_event_waits_for_the_newer_one),        \
        T(kind, a_handler_that_ends_the_transaction_is_an_error)
#define T(kind, test) cmocka_unit_test_prestate(test, &kind)

static int test_memory(void)
{
    static struct kind memory = {"memory", fresh_memory, NULL, NULL};
    const struct CMUnitTest tests[] = {
        ALL(memory), T(memory, memory_forgets_by_itself),
        T(memory, memory_is_bounded), T(memory, memory_joins_no_transaction)};

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}

static int test_sqlite(void)
{
#ifdef WITH_SQLITE
    static struct kind sqlite = {"sqlite", fresh_sqlite, reopen_sqlite,
                                 count_sqlite};
    const struct CMUnitTest tests[] = {ALL(sqlite), SQL(sqlite),
                                       T(sqlite, sqlite_joins_your_transaction),
                                       T(sqlite, sqlite_says_what_failed)};
    int failed;

    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/x.db", folder);
    failed = cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
#else
    return 0;
#endif
}

static int test_postgres(void)
{
#ifdef WITH_POSTGRES
    static struct kind postgres = {"postgres", fresh_postgres, reopen_postgres,
                                   count_postgres};
    const struct CMUnitTest tests[] = {
        ALL(postgres),
        SQL(postgres),
        T(postgres, postgres_joins_your_transaction),
        T(postgres, an_ignored_error_of_postgres_is_not_a_commit),
        T(postgres, a_lost_connection_of_postgres_is_replaced),
        T(postgres, postgres_says_what_failed)};

    if (getenv("GRAPNEL_TEST_POSTGRES"))
        return cmocka_run_group_tests_name("postgres", tests, NULL, NULL);
    printf("GRAPNEL_TEST_POSTGRES is not set: PostgreSQL is not tested\n");
#endif
    return 0;
}

static int test_redis(void)
{
#ifdef WITH_REDIS
    static struct kind redis = {"redis", fresh_redis, reopen_redis, NULL};
    const struct CMUnitTest tests[] = {
        ALL(redis), T(redis, a_claim_of_a_dead_process_ends),
        T(redis, a_lost_connection_of_redis_is_replaced),
        T(redis, redis_says_what_failed)};

    if (getenv("GRAPNEL_TEST_REDIS"))
        return cmocka_run_group_tests_name("redis", tests, NULL, NULL);
    printf("GRAPNEL_TEST_REDIS is not set: Redis is not tested\n");
#endif
    return 0;
}

int main(void)
{
    int failed = test_memory() + test_sqlite() + test_postgres() + test_redis();

    vectors_close();
    return failed != 0;
}
