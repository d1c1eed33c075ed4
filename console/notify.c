#include "notify.h"
#include "clock.h"
#include "notify_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 20 };

LIST_HEAD(job_list, job);

struct notify {
    CURLM *multi;
    struct job_list jobs;
};

struct notify *notify_open(void)
{
    struct notify *n = gr_alloc(sizeof *n);

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 ||
        !(n->multi = curl_multi_init()))
        die(EXIT_UNAVAILABLE, "libcurl cannot start");
    return n;
}

static void free_job(struct notify *n, struct job *j)
{
    LIST_REMOVE(j, link);
    if (j->easy) {
        curl_multi_remove_handle(n->multi, j->easy);
        curl_easy_cleanup(j->easy);
    }
    curl_slist_free_all(j->headers);
    curl_slist_free_all(j->readers);
    guard_fini(&j->guard);
    buf_fini(&j->payload);
    free(j);
}

void notify_close(struct notify *n)
{
    struct job *j;

    if (!n)
        return;
    while ((j = LIST_FIRST(&n->jobs))) {
        command_kill(j);
        free_job(n, j);
    }
    curl_multi_cleanup(n->multi);
    curl_global_cleanup();
    free(n);
}

bool notify_busy(const struct notify *n, const char *notifier)
{
    struct job *j;

    LIST_FOREACH(j, &n->jobs, link)
    if (strcmp(j->end.notifier, notifier) == 0)
        return true;
    return false;
}

void notify_begin(struct notify *n, const struct notifier *how,
                  const struct message *m)
{
    struct job *j = gr_alloc(sizeof *j);

    j->end.n = m->n;
    snprintf(j->end.notifier, sizeof j->end.notifier, "%s", how->name);
    LIST_INSERT_HEAD(&n->jobs, j, link);
    if (how->exec.count) {
        j->due_ms = mono_ms() + how->timeout_ms;
        j->ended = !command_start(j, how, m);
        return;
    }
    send_prepare(j, how, m);
    if (curl_multi_add_handle(n->multi, j->easy) != CURLM_OK)
        send_end(j, CURLE_OUT_OF_MEMORY);
}

static void take_ended(struct notify *n)
{
    CURLMsg *msg;
    struct job *j;
    int left;

    while ((msg = curl_multi_info_read(n->multi, &left))) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        LIST_FOREACH(j, &n->jobs, link)
        if (j->easy == msg->easy_handle)
            send_end(j, msg->data.result);
    }
}

int notify_run(struct notify *n, int64_t mono_now_ms)
{
    struct job *j;
    int running;

    if (LIST_EMPTY(&n->jobs))
        return -1;
    curl_multi_perform(n->multi, &running);
    take_ended(n);
    LIST_FOREACH(j, &n->jobs, link)
    if (j->pid > 0 && !j->ended)
        command_look(j, mono_now_ms);
    return LOOK_MS;
}

bool notify_ended(struct notify *n, struct notify_end *out)
{
    struct job *j;

    LIST_FOREACH(j, &n->jobs, link)
    {
        if (!j->ended)
            continue;
        *out = j->end;
        free_job(n, j);
        return true;
    }
    return false;
}
