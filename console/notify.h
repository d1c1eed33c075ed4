/* notify: sends notifications by webhook, mail or command. It never blocks. Each notifier sends one
 * at a time, so that one that hangs delays only itself. For notifications.c, after the commit;
 * what a crash interrupts is sent again, with the same id.
 *
 * The addresses of webhooks and mail servers are checked like those of endpoints (P8): a private
 * address needs allow_private. */
#ifndef CONSOLE_NOTIFY_H
#define CONSOLE_NOTIFY_H

#include "bounds.h"
#include "settings.h"

struct notify;

struct message {
    int64_t n; /* the id that notify_ended() returns; 0: a test */
    const char *id;
    const char *severity, *state, *alerts, *subject, *text, *body;
    int64_t now_ms;
};

struct notify_end {
    int64_t n;
    char notifier[NAME_MAX_BYTES + 1];
    bool ok;
    char why[200];
};

struct notify *notify_open(void);
/* Abort what has not ended; it is sent again after the next start. */
void notify_close(struct notify *n);

bool notify_busy(const struct notify *n, const char *notifier);
/* Everything is copied. The notifier must be idle. */
void notify_begin(struct notify *n, const struct notifier *how,
                  const struct message *m);
/* Continue. Returns ms until it must be called again; -1: nothing is being sent. */
int notify_run(struct notify *n, int64_t mono_now_ms);
/* The next one that has ended; false: there is no further one. */
bool notify_ended(struct notify *n, struct notify_end *out);

#endif
