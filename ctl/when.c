#include "when.h"
#include "clock.h"
#include "conf.h"
#include <stdio.h>
#include <string.h>

gr_rc when_parse(const char *text, int64_t now_ms, int64_t *ms, char why[200])
{
    const char *wrong;
    int64_t ago_ms, us;

    if (rfc3339_parse(text, strlen(text), RFC3339_SHORT, &us) && us >= 0) {
        *ms = us / 1000;
        return GR_OK;
    }
    if (conf_parse_duration(text, &ago_ms, &wrong) == GR_OK) {
        *ms = ago_ms < now_ms ? now_ms - ago_ms : 0;
        return GR_OK;
    }
    snprintf(why, 200,
             "\"%.60s\" is neither a duration (30m, 24h, 7d: so long ago) nor "
             "a time (2026-11-21T10:00:00Z)",
             text);
    return GR_REFUSE;
}
