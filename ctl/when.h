/* when: a moment as people write it: how long ago, or RFC 3339. Pure. */
#ifndef CTL_WHEN_H
#define CTL_WHEN_H

#include "rc.h"

/* "24h" before `now_ms`, or "2026-11-21", "2026-11-21T10:00:00.5Z",
 * "2026-11-21 10:00+07:00" (no zone: UTC). GR_REFUSE: `why` says so. */
GR_MUST_CHECK gr_rc when_parse(const char *text, int64_t now_ms, int64_t *ms,
                               char why[200]);

#endif
