#include "clock.h"
#include "daemon.h"
#include "log.h"
#include "task.h"
#include "transfer.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Rounds of reading until deadlines may be judged: more than one for each
     * that is in flight, so that what never stops talking does not stop us. */
    ROUNDS_MAX = 64,
    KEPT_CONNECTIONS = 1024,
    STILL_MIN_MS = 50,     /* shorter stalls are within a deadline's grain */
    STILL_HIDES_MS = 1000, /* of a stall the loop may take for waiting */
};

/* ---- lists ---- */

static void list_add(struct transfer_list *l, struct transfer *f)
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

static void list_drop(struct transfer_list *l, struct transfer *f)
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
    struct transfers *fs = self;
    struct transfer *f = NULL;

    (void)known;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &f);
    sockets_watch(&fs->sockets, fd, what, f && f->result.sent);
    return 0;
}

static int on_timer(CURLM *multi, long in_ms, void *self)
{
    struct transfers *fs = self;

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

void transfers_open(struct transfers *fs, const int64_t *lease_until_ms)
{
    *fs = (struct transfers){.timer_ms = -1,
                             .awake_ms = mono_ms(),
                             .lease_until_ms = lease_until_ms};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        die(EXIT_UNAVAILABLE, "libcurl cannot be used");
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

static void free_list(struct transfer_list *l)
{
    struct transfer *f;

    while ((f = l->first)) {
        list_drop(l, f);
        transfer_free(f);
    }
}

void transfers_close(struct transfers *fs)
{
    struct transfer *f;

    transfers_interrupt(fs, NULL, "the deliverer ends");
    free_list(&fs->ended);
    free_list(&fs->tested);
    while ((f = fs->idle)) {
        fs->idle = f->next;
        transfer_free(f);
    }
    heap_fini(&fs->deadlines);
    curl_multi_cleanup(fs->multi);
    sockets_close(&fs->sockets);
    curl_global_cleanup();
}

/* ---- begin ---- */

bool transfers_have_capacity(const struct transfers *fs)
{
    return fs->active.count + fs->ended.count < FLIGHTS_MAX;
}

static struct transfer *take_idle(struct transfers *fs)
{
    struct transfer *f = fs->idle;

    if (!f)
        return transfer_new(fs);
    fs->idle = f->next;
    f->next = NULL;
    return f;
}

static void reset(struct transfer *f)
{
    f->result = (struct transfer_result){0};
    f->timings = (struct timings){0};
    f->response_bytes = f->raw_bytes = f->head_cost = 0;
    f->http_version = 0;
    f->sends = 0;
    f->interrupted = NULL;
    f->endpoint_held = false;
    f->expired = f->decided = f->recorded = f->put_off = false;
    f->attempt_id = 0;
    f->duration_ms = f->retry_after_ms = 0;
    f->began_us = mono_us();
    buf_reset(&f->headers);
    buf_reset(&f->response);
}

static void set_deadlines(struct transfers *fs, struct transfer *f)
{
    f->connect_by = fs->awake_ms + f->config->settings.connect_timeout_ms;
    f->end_by = fs->awake_ms + f->config->settings.timeout_ms;
    heap_put(&fs->deadlines, &f->deadline,
             f->connect_by < f->end_by ? f->connect_by : f->end_by);
}

void transfer_begin(struct transfers *fs, struct task *t,
                    struct endpoint_config *config, int64_t now_ms)
{
    struct transfer *f = take_idle(fs);

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
    transfer_prepare(f);
    set_deadlines(fs, f);
    list_add(&fs->active, f);
    if (curl_multi_add_handle(fs->multi, f->easy) != CURLM_OK)
        die(EXIT_UNAVAILABLE, "libcurl accepts no more requests");
}

/* ---- end ---- */

static void end(struct transfers *fs, struct transfer *f, CURLcode code)
{
    transfer_read(f, code);
    f->ended_ms = fs->awake_ms;
    curl_multi_remove_handle(fs->multi, f->easy);
    heap_drop(&fs->deadlines, &f->deadline);
    list_drop(&fs->active, f);
    list_add(f->task->test ? &fs->tested : &fs->ended, f);
}

/* Our own time for connecting ends before libcurl's. When it is libcurl's that is
 * over, we stood still in the middle of a call to it. Nothing was sent: it
 * connects once more. */
static bool connects_again(struct transfers *fs, struct transfer *f,
                           CURLcode code)
{
    if (code != CURLE_OPERATION_TIMEDOUT || f->result.sent || f->put_off)
        return false;
    curl_multi_remove_handle(fs->multi, f->easy);
    f->put_off = true;
    transfer_prepare(f);
    set_deadlines(fs, f);
    return curl_multi_add_handle(fs->multi, f->easy) == CURLM_OK;
}

static void take_ends(struct transfers *fs)
{
    struct transfer *f;
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(fs->multi, &left))) {
        CURLcode code = m->data.result;

        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
        if (!connects_again(fs, f, code))
            end(fs, f, code);
    }
}

static void take_timer(struct transfers *fs)
{
    int running;

    if (fs->timer_ms < 0 || fs->timer_ms > mono_ms())
        return;
    fs->timer_ms = -1;
    curl_multi_socket_action(fs->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* ---- deadlines ---- */

static struct transfer *transfer_of(struct heap_item *item)
{
    return (struct transfer *)(void *)((char *)item -
                                       offsetof(struct transfer, deadline));
}

static bool deadline_has_passed(const struct transfers *fs)
{
    const struct heap_item *first = heap_first(&fs->deadlines);

    return first && first->key <= fs->awake_ms;
}

static void end_overdue(struct transfers *fs)
{
    while (deadline_has_passed(fs)) {
        struct transfer *f = transfer_of(heap_first(&fs->deadlines));

        if (f->result.sent && f->end_by > fs->awake_ms)
            heap_put(&fs->deadlines, &f->deadline, f->end_by);
        else
            end(fs, f, CURLE_OPERATION_TIMEDOUT);
    }
}

/* No deadline is judged while there may be bytes to read. */
static void judge_deadlines(struct transfers *fs)
{
    int rounds = 0;

    while (deadline_has_passed(fs) && rounds++ < ROUNDS_MAX &&
           sockets_turn(&fs->sockets, fs->multi) > 0) {
        take_timer(fs);
        take_ends(fs);
    }
    end_overdue(fs);
}

/* The process may have been stopped during a wait, and the loop counts the time that it asked
 * for as awake; and a handshake needs further round trips. So the deadlines of an attempt
 * move by that time too, but only once: a machine that is stopped again and again must not
 * extend an attempt for ever. */
static void put_off(struct transfers *fs, struct transfer *f)
{
    if (f->put_off)
        return;
    f->put_off = true;
    f->connect_by += STILL_HIDES_MS;
    f->end_by += STILL_HIDES_MS;
    heap_put(&fs->deadlines, &f->deadline, f->deadline.key + STILL_HIDES_MS);
}

/* Before anything is read: libcurl looks at its time for connecting first. */
static void note_time(struct transfers *fs, int64_t awake_ms)
{
    int64_t still_ms = mono_ms() - awake_ms;

    fs->awake_ms = awake_ms;
    if (still_ms - fs->still_ms > STILL_MIN_MS)
        for (struct transfer *f = fs->active.first; f; f = f->next) {
            put_off(fs, f);
            transfer_stood_still(f);
        }
    fs->still_ms = still_ms;
}

void transfers_turn(struct transfers *fs, int64_t awake_ms)
{
    note_time(fs, awake_ms);
    sockets_turn(&fs->sockets, fs->multi);
    take_timer(fs);
    take_ends(fs);
    if (deadline_has_passed(fs))
        judge_deadlines(fs);
}

void transfers_read(struct transfers *fs)
{
    sockets_turn(&fs->sockets, fs->multi);
    take_timer(fs);
    take_ends(fs);
}

static int at_most_a_minute(int64_t left)
{
    return left < 0 ? 0 : left > MINUTE_MS ? (int)MINUTE_MS : (int)left;
}

int transfers_wait_ms(const struct transfers *fs)
{
    const struct heap_item *first = heap_first(&fs->deadlines);
    int timer = fs->timer_ms < 0 ? -1
                                 : at_most_a_minute(fs->timer_ms - mono_ms());
    int due = first ? at_most_a_minute(first->key - fs->awake_ms) : -1;

    return timer < 0 ? due : due < 0 || timer < due ? timer : due;
}

void transfers_interrupt(struct transfers *fs, const struct grant *grant,
                         const char *why)
{
    struct transfer *f, *next;

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
 * keeps a response's header lines until the next one. */
static void put_away(struct transfers *fs, struct transfer *f)
{
    if (f->head_cost > RESPONSE_HEADERS_MAX_BYTES) {
        transfer_free(f);
        return;
    }
    endpoint_config_drop(f->config);
    f->config = NULL;
    f->task = NULL;
    f->next = fs->idle;
    fs->idle = f;
}

void transfer_done(struct transfers *fs, struct transfer *f)
{
    list_drop(&fs->ended, f);
    put_away(fs, f);
}

void transfer_test_done(struct transfers *fs, struct transfer *f)
{
    list_drop(&fs->tested, f);
    put_away(fs, f);
}
