/* when: times as people write them (how long ago, or RFC 3339), and as they read them. */
#ifndef CTL_WHEN_H
#define CTL_WHEN_H

#include "rc.h"

/* "24h" before `now_ms`, or "2026-11-21", "2026-11-21T10:00:00.5Z",
 * "2026-11-21 10:00+07:00" (no zone: UTC). GR_REFUSE: `why` says so. */
GR_MUST_CHECK gr_rc when_parse(const char *text, int64_t now_ms, int64_t *ms,
                               char why[200]);

/* The same for a time ahead: "90d" is that long after `now_ms`. */
GR_MUST_CHECK gr_rc when_parse_ahead(const char *text, int64_t now_ms,
                                     int64_t *ms, char why[200]);

/* How times are printed: UTC, or the local zone (--local; of $TZ). */
void when_use_local(bool local);
/* The suffix of a time, or of a column's heading: "UTC" or "local time". */
const char *when_zone(void);
/* "2026-11-21 10:00:00.123", and with --local its offset, "+07:00", behind it. */
enum { WHEN_BYTES = 64 };
void when_print(char out[WHEN_BYTES], int64_t wall_ms);

#endif
