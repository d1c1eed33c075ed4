/* clock: the wall clock, the monotonic clock, and a clock for tests behind both.
 *
 * now_ms() is the wall clock, the only time that is stored. While a process runs it is the
 * wall clock of its start plus CLOCK_BOOTTIME, so it never jumps: a step of the system's
 * clock is logged and then followed slowly, by at most one part in a hundred. mono_ms() is
 * CLOCK_BOOTTIME: it counts while the machine sleeps, and means nothing after a reboot. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECOND_MS 1000LL
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)

int64_t now_ms(void);
int64_t mono_ms(void);
int64_t mono_us(void);
/* How long the calling thread has computed, without what it waited for. It bounds work: a busy
 * machine does not change it, nor does the clock for tests. */
int64_t thread_us(void);
/* The system's clock with its steps. Only for comparing with the time of another machine,
 * such as the time of a signature; never stored. */
int64_t system_ms(void);

/* Compares with the system's clock; call it about once a second. It logs a step of more
 * than a second, once. */
void clock_follow(void);

/* Only for tests: both clocks stop at `wall_ms`, and clock_test_advance() moves them.
 * clock_test_off() returns to the real clocks. */
void clock_test_set(int64_t wall_ms);
void clock_test_advance(int64_t ms);
void clock_test_off(void);

/* Writes RFC 3339 in UTC with milliseconds: "2026-11-21T10:00:00.000Z". A time outside of
 * the years 1000 to 9999 is written as the nearest one inside. */
enum { RFC3339_BYTES = 32 };
void rfc3339(char out[RFC3339_BYTES], int64_t wall_ms);
/* Reads RFC 3339: a date, T or t or a space, a time, perhaps a fraction, Z or an
 * offset. The result is µs since 1970; digits of the fraction beyond µs are
 * dropped. A leap second is read as the second that follows it. RFC3339_SHORT
 * also allows what people leave out: the zone (then it is UTC), the seconds, the
 * time, and the colon in the offset. false: not a time, or a date that does not
 * exist. */
enum rfc3339_form { RFC3339_FULL, RFC3339_SHORT };
bool rfc3339_parse(const char *text, size_t n, enum rfc3339_form form,
                   int64_t *wall_us);

#endif
