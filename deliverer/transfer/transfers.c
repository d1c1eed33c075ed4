/* transfers: begins libcurl transfers, gives libcurl its turns, and ends transfers that are
 * complete or too late. */
#include "transfers.h"
#include "clock.h"
#include "daemon.h"
#include "log.h"
#include "task.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Rounds of reading until deadlines are judged, so that endpoints that never stop
     * sending do not stop this process. */
    ROUNDS_MAX = 64,
    KEPT_CONNECTIONS = 1024,
    STILL_MIN_MS = 50, /* a deadline need not be more exact than this */
    STILL_HIDES_MS =
        1000, /* of a stop that the loop may count as time spent waiting */
};

static void list_add(struct transfer_list *l, struct transfer *f)
{
    TAILQ_INSERT_TAIL(&l->all, f, link);
    l->count++;
}

static void list_remove(struct transfer_list *l, struct transfer *f)
{
    TAILQ_REMOVE(&l->all, f, link);
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

void transfers_open(struct transfers *fs, const int64_t *lease_until_ms)
{
    const curl_version_info_data *v;

    *fs = (struct transfers){.timer_ms = -1,
                             .awake_ms = mono_ms(),
                             .lease_until_ms = lease_until_ms};
    TAILQ_INIT(&fs->active.all);
    TAILQ_INIT(&fs->ended.all);
    TAILQ_INIT(&fs->tested.all);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        die(EXIT_UNAVAILABLE, "libcurl cannot be used");
    /* libcurl's file of certificates is enough if there is one, and only without the
     * folder is it cached between connections. */
    v = curl_version_info(CURLVERSION_NOW);
    fs->capath = v->cainfo && access(v->cainfo, R_OK) == 0 ? NULL : v->capath;
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

    while ((f = TAILQ_FIRST(&l->all))) {
        list_remove(l, f);
        transfer_free(f);
    }
}

void transfers_close(struct transfers *fs)
{
    struct transfer *f;

    transfers_interrupt(fs, NULL, "the deliverer ends");
    free_list(&fs->ended);
    free_list(&fs->tested);
    while ((f = SLIST_FIRST(&fs->idle))) {
        SLIST_REMOVE_HEAD(&fs->idle, idle_link);
        transfer_free(f);
    }
    due_queue_fini(&fs->deadlines);
    curl_multi_cleanup(fs->multi);
    sockets_close(&fs->sockets);
    curl_global_cleanup();
}

/* ---- begin ---- */

bool transfers_have_capacity(const struct transfers *fs)
{
    return fs->active.count + fs->ended.count < TRANSFERS_MAX;
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
    f->connect_by = fs->awake_ms + f->connect_ms;
    f->end_by = fs->awake_ms + f->timeout_ms;
    due_queue_put(&fs->deadlines, &f->deadline,
                  f->connect_by < f->end_by ? f->connect_by : f->end_by);
}

void transfer_begin(struct transfers *fs, struct task *t,
                    struct endpoint_config *config, int64_t now_ms)
{
    struct transfer *f = SLIST_FIRST(&fs->idle);

    if (f)
        SLIST_REMOVE_HEAD(&fs->idle, idle_link);
    else
        f = transfer_new(fs);
    f->task = t;
    f->config = endpoint_config_use(config);
    f->policy = t->retry ? t->retry : &config->policy;
    f->at_ms = now_ms;
    reset(f);
    if (t->w.expires_ms > 0 && t->w.expires_ms <= now_ms) {
        f->expired = true;
        f->ended_ms = fs->awake_ms;
        list_add(&fs->ended, f);
        return;
    }
    f->attempt_id = random_id();
    f->timeout_ms = settings_timeout_ms(&config->settings, f->policy);
    f->connect_ms = config->settings.connect_timeout_ms < f->timeout_ms
                        ? config->settings.connect_timeout_ms
                        : f->timeout_ms;
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
    due_queue_drop(&fs->deadlines, &f->deadline);
    list_remove(&fs->active, f);
    list_add(f->task->test ? &fs->tested : &fs->ended, f);
}

/* Before its response is complete. */
static void give_up(struct transfers *fs, struct transfer *f, CURLcode code)
{
    fs->sockets.gives_up = true;
    end(fs, f, code);
    fs->sockets.gives_up = false;
}

/* The time-out for connecting here is shorter than libcurl's. If libcurl's has expired,
 * this process was stopped inside a call to libcurl. Nothing was sent, so the transfer
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

static bool deadline_has_passed(const struct transfers *fs)
{
    const struct due_item *first = due_queue_first(&fs->deadlines);

    return first && first->key <= fs->awake_ms;
}

/* First read all that has arrived: a response that is here already is in time. */
static void judge_deadlines(struct transfers *fs)
{
    int rounds = 0;

    while (deadline_has_passed(fs) && rounds++ < ROUNDS_MAX &&
           sockets_turn(&fs->sockets, fs->multi) > 0) {
        take_timer(fs);
        take_ends(fs);
    }
    while (deadline_has_passed(fs)) {
        struct transfer *f = DUE_ITEM_OWNER(due_queue_first(&fs->deadlines),
                                            struct transfer, deadline);

        if (f->result.sent && f->end_by > fs->awake_ms)
            due_queue_put(&fs->deadlines, &f->deadline, f->end_by);
        else
            give_up(fs, f, CURLE_OPERATION_TIMEDOUT);
    }
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
    due_queue_put(&fs->deadlines, &f->deadline,
                  f->deadline.key + STILL_HIDES_MS);
}

void transfers_turn(struct transfers *fs, int64_t awake_ms)
{
    int64_t still_ms = mono_ms() - awake_ms;
    struct transfer *f;

    fs->awake_ms = awake_ms;
    /* Before anything is read: libcurl judges its time for connecting first. */
    if (still_ms - fs->still_ms > STILL_MIN_MS)
        TAILQ_FOREACH(f, &fs->active.all, link)
        {
            put_off(fs, f);
            transfer_stood_still(f);
        }
    fs->still_ms = still_ms;
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
    const struct due_item *first = due_queue_first(&fs->deadlines);
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
    for (f = TAILQ_FIRST(&fs->active.all); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (grant && f->task->grant != grant)
            continue;
        f->interrupted = why;
        give_up(fs, f, CURLE_ABORTED_BY_CALLBACK);
    }
}

/* Keep it for the next attempt, unless it has more memory than that will need: libcurl
 * keeps a response's header lines until the next response. */
static void put_away(struct transfers *fs, struct transfer *f)
{
    if (f->head_cost > RESPONSE_HEADERS_MAX_BYTES) {
        transfer_free(f);
        return;
    }
    endpoint_config_drop(f->config);
    f->config = NULL;
    f->policy = NULL;
    f->task = NULL;
    SLIST_INSERT_HEAD(&fs->idle, f, idle_link);
}

void transfer_done(struct transfers *fs, struct transfer *f)
{
    list_remove(&fs->ended, f);
    put_away(fs, f);
}

void transfer_test_done(struct transfers *fs, struct transfer *f)
{
    list_remove(&fs->tested, f);
    put_away(fs, f);
}
