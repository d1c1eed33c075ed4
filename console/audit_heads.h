/* audit_heads: publishes the newest hashes of the audit chains by notifiers (audit.notify). Used from
 * the console's loop only. */
#ifndef CONSOLE_AUDIT_HEADS_H
#define CONSOLE_AUDIT_HEADS_H

#include <stdint.h>

struct audit_heads;
struct console;

/* `due_ms`: mono, when the processes have had time to start. */
struct audit_heads *audit_heads_open(const char *run_dir, int64_t due_ms);
void audit_heads_close(struct audit_heads *h);
int audit_heads_fd(const struct audit_heads *h); /* for the loop */
/* In the transaction. Returns the longest sleep, ms. */
int audit_heads_work(struct console *c);

#endif
