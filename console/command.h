/* command: runs a notifier that is a program. It is started without a shell, with its arguments
 * unchanged, in its own process group. It inherits no open file, and of the environment only
 * PATH, HOME, LANG and TZ, so that it does not get the secrets in there. For notify.c. A crash of
 * this process leaves the program running. */
#ifndef CONSOLE_COMMAND_H
#define CONSOLE_COMMAND_H

#include "notify.h"
#include <sys/types.h>

struct command {
    pid_t pid;      /* 0: not running */
    int64_t due_ms; /* mono: then it is killed */
};

/* Starts the program. false: `why` says the reason. */
bool command_start(struct command *c, const struct notifier *how,
                   const struct message *m, char why[200]);
/* Whether a running program has ended: *ok, or the reason in `why`. Kills it when its `timeout`
 * has expired. */
bool command_ended(struct command *c, int64_t mono_now_ms, bool *ok,
                   char why[200]);
/* Kills the process group of a running program. */
void command_kill(struct command *c);

#endif
