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

/* The manager kills this process when it is silent for too long. */
bool manager_watches(void);

/* What follows are states, in the order of a life. */
void manager_starting(
    const char *status);  /* it takes MANAGER_EXTEND_MS longer */
void manager_ready(void); /* after the start, and after each reload */
void manager_reloading(void);
/* It ends, and may take so long beside MANAGER_EXTEND_MS. */
void manager_stopping(int64_t max_ms);

/* From each turn: the watchdog, and what could not be sent. Returns the ms until it
 * has to be called again; -1: that does not matter. */
int manager_turn(int64_t mono_ms);
/* From the fallback thread: the loop waits for the disk since disk_ms (mono). A process in
 * that state cannot be killed, and a restart would wait for the same disk, so the
 * watchdog is kept up and a stop takes longer; the status says for how long. */
void manager_waits(int64_t mono_ms, int64_t disk_ms);

/* A new status may be sent: at most one in five seconds. */
bool manager_status_is_due(int64_t mono_ms);
/* One line, in words. Sent if it is another than before. */
void manager_status(const char *text, int64_t mono_ms);

#endif
