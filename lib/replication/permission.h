/* permission: until when the active may send (respond, acknowledge, send frames and requests).
 *
 * It ends `hold` (a third of takeover_after) after the active began its last acknowledged statement, by
 * CLOCK_BOOTTIME. It also ends when the wall clock has run ahead of CLOCK_BOOTTIME by more than `hold` since then: a
 * pause of a virtual machine that CLOCK_BOOTTIME does not count. One thread extends and ends it; any thread may ask.
 * Source: docs/decisions/0126. */
#ifndef REPLICATION_PERMISSION_H
#define REPLICATION_PERMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct permission {
    int64_t hold_ms;
    _Atomic int64_t until_mono_ms; /* 0: there is none */
    /* The wall clock less CLOCK_BOOTTIME, when the statement began. */
    _Atomic int64_t ahead_ms;
};

/* How long a statement permits to send, from when it began. */
int64_t hold_of_ms(int64_t takeover_after_ms);

void permission_init(struct permission *p, int64_t takeover_after_ms);
/* The statement that began at these times (mono_ms() and system_ms()) was acknowledged. An older one than the last changes
 * nothing. */
void permission_extend(struct permission *p, int64_t began_mono_ms,
                       int64_t began_wall_ms);
void permission_end(struct permission *p);
bool permission_holds(const struct permission *p, int64_t mono_ms,
                      int64_t wall_ms);
/* How long it still holds, ms; 0: not at all. */
int64_t permission_left_ms(const struct permission *p, int64_t mono_ms,
                           int64_t wall_ms);

#endif
