/* notify: tells people: a webhook, a mail, a command. Never blocks; one at a
 * time for each notifier, so that one that hangs holds up nothing but itself.
 *
 * A webhook's and a mail server's address is guarded like an endpoint's (P8):
 * nothing private is reached unless allow_private says so. A command is run
 * without a shell, with an environment of its own. */
#ifndef CONSOLE_NOTIFY_H
#define CONSOLE_NOTIFY_H

#include "bounds.h"
#include "settings.h"

struct notify;

struct message {
    int64_t n; /* what notify_ended() names it by; 0: a test */
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
/* What is under way is broken off; it is told again after the next start. */
void notify_close(struct notify *n);

bool notify_busy(const struct notify *n, const char *notifier);
/* Everything is copied. It must not be busy. */
void notify_begin(struct notify *n, const struct notifier *how,
                  const struct message *m);
/* Go on. Returns ms until it wants to be called again; -1: nothing is under
 * way. */
int notify_run(struct notify *n, int64_t mono_now_ms);
/* One that ended; false: none (any more). */
bool notify_ended(struct notify *n, struct notify_end *out);

#endif
