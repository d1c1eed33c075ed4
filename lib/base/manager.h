/* manager: reports readiness, progress and the watchdog to the service manager that started
 * this process, with the datagrams that sd_notify(3) documents. Without $NOTIFY_SOCKET, or
 * with an address of an unknown kind, every function does nothing.
 *
 * No call blocks or fails. A datagram for which the manager has no space is sent again by a
 * later turn if it matters (READY, STOPPING, the watchdog), and dropped if it does not. A
 * crash leaves nothing behind.
 *
 * Only one thread at a time may call these: the loop, or its fallback thread (fallback.h). */
#ifndef BASE_MANAGER_H
#define BASE_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MANAGER_EXTEND_MS = 60 * 1000, /* each extension of a start or a stop */
    MANAGER_EXTEND_EVERY_MS = 5 * 1000, /* of a start that takes long */
};

/* Read $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and remove them from the
 * environment, so that no child takes them for its own. Before any thread starts. */
void manager_open(void);
void manager_close(void);

/* Whether the manager kills this process when it does not report for too long. */
bool manager_watches(void);

/* The next ones report states of the process, in the order in which it reaches them. */
void manager_starting(
    const char *status);  /* the start takes MANAGER_EXTEND_MS longer */
void manager_ready(void); /* after the start, and after each reload */
void manager_reloading(void);
/* the process ends, and may need this long beside MANAGER_EXTEND_MS */
void manager_stopping(int64_t max_ms);

/* Call it in each turn: it sends the watchdog's message, and what could not be sent before.
 * Returns the ms until it must be called again; -1: it need not. */
int manager_turn(int64_t mono_ms);
/* From the fallback thread: the loop has waited for `what` ("the disk") since disk_ms (mono). A
 * process in that state cannot be killed, and a restart would wait for the same disk, so
 * the watchdog is satisfied and a stop gets more time; the status says for how long. */
void manager_waits(int64_t mono_ms, int64_t disk_ms, const char *what);

/* Whether a new status may be sent: at most one in five seconds. */
bool manager_status_is_due(int64_t mono_ms);
/* One line of plain text. It is sent if it differs from the one before. */
void manager_status(const char *text, int64_t mono_ms);

#endif
