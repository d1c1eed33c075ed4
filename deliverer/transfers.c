#include "attempt.h"
#include "clock.h"
#include "daemon.h"
#include "log.h"
#include "task.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Rounds of reading until deadlines may be judged: more than one for each
     * that flies, so that what never stops talking does not stop us. */
    ROUNDS_MAX = 64,
    KEPT_CONNECTIONS = 1024,
    STILL_LEAST_MS = 50,   /* shorter stalls are within a deadline's grain */
    STILL_HIDES_MS = 1000, /* of a stall the loop may take for waiting */
};

/* ---- lists ---- */

static void list_add(struct flight_list *l, struct flight *f)
{
    f->prev = l->last;
    f->next = NULL;
    if (l->last)
        l->last->next = f;
    else
        l->first = f;
    l->last = f;
    l->count++;
}

static void list_drop(struct flight_list *l, struct flight *f)
{
    if (f->prev)
        f->prev->next = f->next;
    else
        l->first = f->next;
    if (f->next)
        f->next->prev = f->prev;
    else
        l->last = f->prev;
    f->next = f->prev = NULL;
    l->count--;
}

/* ---- sockets and timer of libcurl ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self,
                     void *known)
{
    struct flights *fs = self;
    struct flight *f = NULL;

    (void)known;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &f);
    sockets_want(&fs->sockets, fd, what, f && f->answer.sent);
    return 0;
}

static int on_timer(CURLM *multi, long in_ms, void *self)
{
    struct flights *fs = self;

    (void)multi;
    fs->timer_ms = in_ms < 0 ? -1 : mono_ms() + in_ms;
    return 0;
}

/* Its file of certificates is enough, and is cached between connections only
 * without the folder. */
static const char *system_capath(void)
{
    const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);

    return v->cainfo && access(v->cainfo, R_OK) == 0 ? NULL : v->capath;
}

void flights_open(struct flights *fs, const int64_t *lease_until_ms)
{
    *fs = (struct flights){.timer_ms = -1,
                           .awake_ms = mono_ms(),
                           .lease_until_ms = lease_until_ms};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        die(EXIT_UNAVAILABLE, "libcurl can't be used");
    fs->capath = system_capath();
    fs->multi = curl_multi_init();
    if (!fs->multi)
        die(EXIT_UNAVAILABLE, "libcurl is out of memory");
    sockets_open(&fs->sockets);
    curl_multi_setopt(fs->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(fs->multi, CURLMOPT_SOCKETDATA, fs);
    curl_multi_setopt(fs->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(fs->multi, CURLMOPT_TIMERDATA, fs);
    curl_multi_setopt(fs->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS);
}

static void free_list(struct flight_list *l)
{
    struct flight *f;

    while ((f = l->first)) {
        list_drop(l, f);
        flight_free(f);
    }
}

void flights_close(struct flights *fs)
{
    struct flight *f;

    flights_interrupt(fs, NULL, "we end");
    free_list(&fs->ended);
    free_list(&fs->tested);
    while ((f = fs->idle)) {
        fs->idle = f->next;
        flight_free(f);
    }
    heap_fini(&fs->deadlines);
    curl_multi_cleanup(fs->multi);
    sockets_close(&fs->sockets);
    curl_global_cleanup();
}

/* ---- begin ---- */

bool flights_room(const struct flights *fs)
{
    return fs->active.count + fs->ended.count < FLIGHTS_MAX;
}

static struct flight *take_idle(struct flights *fs)
{
    struct flight *f = fs->idle;

    if (!f)
        return flight_new(fs);
    fs->idle = f->next;
    f->next = NULL;
    return f;
}

static void reset(struct flight *f)
{
    f->answer = (struct answer){0};
    f->timings = (struct timings){0};
    f->answer_bytes = f->raw_bytes = f->head_cost = 0;
    f->http_version = 0;
    f->sends = 0;
    f->interrupted = NULL;
    f->held = false;
    f->expired = f->decided = f->recorded = f->put_off = false;
    f->attempt_id = 0;
    f->duration_ms = f->retry_after_ms = 0;
    f->began_us = mono_us();
    buf_reset(&f->headers);
    buf_reset(&f->response);
}

static void set_deadlines(struct flights *fs, struct flight *f)
{
    f->connect_by = fs->awake_ms + f->config->connect_timeout_ms;
    f->end_by = fs->awake_ms + f->config->timeout_ms;
    heap_put(&fs->deadlines, &f->deadline,
             f->connect_by < f->end_by ? f->connect_by : f->end_by);
}

void flight_begin(struct flights *fs, struct task *t,
                  struct endpoint_config *config, int64_t now_ms)
{
    struct flight *f = take_idle(fs);

    f->task = t;
    f->config = endpoint_config_use(config);
    f->at_ms = now_ms;
    reset(f);
    if (t->w.expires_ms > 0 && t->w.expires_ms <= now_ms) {
        f->expired = true;
        f->ended_ms = fs->awake_ms;
        list_add(&fs->ended, f);
        return;
    }
    f->attempt_id = random_id();
    flight_prepare(f);
    set_deadlines(fs, f);
    list_add(&fs->active, f);
    if (curl_multi_add_handle(fs->multi, f->easy) != CURLM_OK)
        die(EXIT_UNAVAILABLE, "libcurl takes no more requests");
}

/* ---- end ---- */

static void end(struct flights *fs, struct flight *f, CURLcode code)
{
    flight_read(f, code);
    f->ended_ms = fs->awake_ms;
    curl_multi_remove_handle(fs->multi, f->easy);
    heap_drop(&fs->deadlines, &f->deadline);
    list_drop(&fs->active, f);
    list_add(f->task->test ? &fs->tested : &fs->ended, f);
}

/* Our own time for connecting ends before libcurl's. When it is libcurl's that is
 * over, we stood still in the middle of a call to it. Nothing was sent: it
 * connects once more. */
static bool connects_again(struct flights *fs, struct flight *f, CURLcode code)
{
    if (code != CURLE_OPERATION_TIMEDOUT || f->answer.sent || f->put_off)
        return false;
    curl_multi_remove_handle(fs->multi, f->easy);
    f->put_off = true;
    flight_prepare(f);
    set_deadlines(fs, f);
    return curl_multi_add_handle(fs->multi, f->easy) == CURLM_OK;
}

static void take_ends(struct flights *fs)
{
    struct flight *f;
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(fs->multi, &left))) {
        CURLcode code = m->data.result;

        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
        if (!connects_again(fs, f, code))
            end(fs, f, code);
    }
}

static void take_timer(struct flights *fs)
{
    int running;

    if (fs->timer_ms < 0 || fs->timer_ms > mono_ms())
        return;
    fs->timer_ms = -1;
    curl_multi_socket_action(fs->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* ---- deadlines ---- */

static struct flight *flight_of(struct heap_item *item)
{
    return (struct flight *)(void *)((char *)item -
                                     offsetof(struct flight, deadline));
}

static bool one_is_over(const struct flights *fs)
{
    const struct heap_item *first = heap_first(&fs->deadlines);

    return first && first->key <= fs->awake_ms;
}

static void end_overdue(struct flights *fs)
{
    while (one_is_over(fs)) {
        struct flight *f = flight_of(heap_first(&fs->deadlines));

        if (f->answer.sent && f->end_by > fs->awake_ms)
            heap_put(&fs->deadlines, &f->deadline, f->end_by);
        else
            end(fs, f, CURLE_OPERATION_TIMEDOUT);
    }
}

/* Nothing is over as long as something may be there to be read. */
static void judge_deadlines(struct flights *fs)
{
    int rounds = 0;

    while (one_is_over(fs) && rounds++ < ROUNDS_MAX &&
           sockets_turn(&fs->sockets, fs->multi) > 0) {
        take_timer(fs);
        take_ends(fs);
    }
    end_overdue(fs);
}

/* We may have stood still from the beginning of a wait, of which the loop counts
 * what it had asked for as awake; and who was under way needs a few more words
 * from the other side. So its deadlines move by that too, once: a machine that
 * stands still again and again does not keep an attempt for ever. */
static void put_off(struct flights *fs, struct flight *f)
{
    if (f->put_off)
        return;
    f->put_off = true;
    f->connect_by += STILL_HIDES_MS;
    f->end_by += STILL_HIDES_MS;
    heap_put(&fs->deadlines, &f->deadline, f->deadline.key + STILL_HIDES_MS);
}

/* Before anything is read: libcurl looks at its time for connecting first. */
static void note_time(struct flights *fs, int64_t awake_ms)
{
    int64_t still_ms = mono_ms() - awake_ms;

    fs->awake_ms = awake_ms;
    if (still_ms - fs->still_ms > STILL_LEAST_MS)
        for (struct flight *f = fs->active.first; f; f = f->next) {
            put_off(fs, f);
            flight_stood_still(f);
        }
    fs->still_ms = still_ms;
}

void flights_turn(struct flights *fs, int64_t awake_ms)
{
    note_time(fs, awake_ms);
    sockets_turn(&fs->sockets, fs->multi);
    take_timer(fs);
    take_ends(fs);
    if (one_is_over(fs))
        judge_deadlines(fs);
}

void flights_read(struct flights *fs)
{
    sockets_turn(&fs->sockets, fs->multi);
    take_timer(fs);
    take_ends(fs);
}

static int at_most_a_minute(int64_t left)
{
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

int flights_wait_ms(const struct flights *fs)
{
    const struct heap_item *first = heap_first(&fs->deadlines);
    int timer = fs->timer_ms < 0 ? -1
                                 : at_most_a_minute(fs->timer_ms - mono_ms());
    int due = first ? at_most_a_minute(first->key - fs->awake_ms) : -1;

    return timer < 0 ? due : due < 0 || timer < due ? timer : due;
}

void flights_interrupt(struct flights *fs, const struct grant *grant,
                       const char *why)
{
    struct flight *f, *next;

    take_ends(fs);
    for (f = fs->active.first; f; f = next) {
        next = f->next;
        if (grant && f->task->grant != grant)
            continue;
        f->interrupted = why;
        end(fs, f, CURLE_ABORTED_BY_CALLBACK);
    }
}

/* For its next attempt, unless it holds more memory than it will need: libcurl
 * keeps an answer's header lines until the next one. */
static void put_away(struct flights *fs, struct flight *f)
{
    if (f->head_cost > ANSWER_HEADERS_MAX_BYTES) {
        flight_free(f);
        return;
    }
    endpoint_config_drop(f->config);
    f->config = NULL;
    f->task = NULL;
    f->next = fs->idle;
    fs->idle = f;
}

void flight_done(struct flights *fs, struct flight *f)
{
    list_drop(&fs->ended, f);
    put_away(fs, f);
}

void flight_test_done(struct flights *fs, struct flight *f)
{
    list_drop(&fs->tested, f);
    put_away(fs, f);
}
