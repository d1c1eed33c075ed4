/* notify_parts: what the files of notify share. */
#ifndef CONSOLE_NOTIFY_PARTS_H
#define CONSOLE_NOTIFY_PARTS_H

#include "guard.h"
#include "notify.h"
#include <curl/curl.h>
#include <sys/queue.h>
#include <sys/types.h>

struct job {
    LIST_ENTRY(job) link;
    struct notify_end end;
    bool ended;
    /* webhook, email */
    CURL *easy;
    struct curl_slist *headers, *readers;
    struct guard guard; /* owns its networks */
    struct buf payload;
    size_t sent;
    bool blocked;                   /* the guard refused an address … */
    char address[INET6_ADDRSTRLEN]; /* … this one */
    bool mail;
    /* exec */
    pid_t pid;
    int64_t due_ms; /* mono: then it is killed */
};

/* notify_send.c: the easy handle, ready for the multi. */
void send_prepare(struct job *j, const struct notifier *how,
                  const struct message *m);
void send_end(struct job *j, CURLcode code);

/* command.c. false: it could not be started; `why` says so. */
bool command_start(struct job *j, const struct notifier *how,
                   const struct message *m);
/* Has it ended? Kills it when its time has expired. */
void command_look(struct job *j, int64_t mono_now_ms);
void command_kill(struct job *j);

#endif
