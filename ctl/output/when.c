/* when: reads times as people write them, and prints times in UTC or in the local zone. */
#include "when.h"
#include "clock.h"
#include "conf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
             "\"%.60s\" is not a time: write a duration (30m, 24h, 7d: ago) or "
             "a time (2026-11-21T10:00:00Z)",
             text);
    return GR_REFUSE;
}

gr_rc when_parse_ahead(const char *text, int64_t now_ms, int64_t *ms,
                       char why[200])
{
    const char *wrong;
    int64_t span_ms;

    if (conf_parse_duration(text, &span_ms, &wrong) != GR_OK) {
        if (when_parse(text, now_ms, ms, why) == GR_OK)
            return GR_OK;
        snprintf(why, 200,
                 "\"%.60s\" is not a time: write a duration (12h, 90d: from "
                 "now) or a time (2027-11-21T10:00:00Z)",
                 text);
        return GR_REFUSE;
    }
    *ms = now_ms + span_ms;
    return GR_OK;
}

static bool in_local_time;

void when_use_local(bool local)
{
    in_local_time = local;
}

const char *when_zone(void)
{
    return in_local_time ? "local time" : "UTC";
}

void when_print(char out[WHEN_BYTES], int64_t wall_ms)
{
    int64_t second = wall_ms / SECOND_MS, ms = wall_ms % SECOND_MS;
    time_t at;
    struct tm t;
    char date[32], zone[16] = "";
    long offset;

    if (ms < 0) {
        ms += SECOND_MS;
        second--;
    }
    at = (time_t)second;
    if (!(in_local_time ? localtime_r(&at, &t) : gmtime_r(&at, &t))) {
        snprintf(out, WHEN_BYTES, "-");
        return;
    }
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &t);
    offset = t.tm_gmtoff / 60;
    if (in_local_time)
        snprintf(zone, sizeof zone, "%c%02ld:%02ld", offset < 0 ? '-' : '+',
                 labs(offset) / 60 % 100, labs(offset) % 60);
    snprintf(out, WHEN_BYTES, "%s.%03d%s", date, (int)ms, zone);
}
