/* fuzz_times: durations, sizes, numbers, rates and times as people write them.
 * What is printed of a value reads back as that value. */
#include "clock.h"
#include "conf.h"
#include "fuzz.h"
#include "rate.h"

static void try_duration(const char *text)
{
    struct buf out;
    const char *why = NULL;
    int64_t ms, again;

    if (conf_parse_duration(text, &ms, &why) != GR_OK) {
        fuzz_check(why && *why);
        return;
    }
    buf_init(&out, 100);
    conf_put_duration(&out, ms);
    fuzz_check(conf_parse_duration(out.data, &again, &why) == GR_OK);
    fuzz_check(again == ms);
    buf_fini(&out);
}

static void try_size(const char *text)
{
    struct buf out;
    const char *why = NULL;
    int64_t bytes, again;

    if (conf_parse_size(text, &bytes, &why) != GR_OK) {
        fuzz_check(why && *why);
        return;
    }
    buf_init(&out, 100);
    conf_put_size(&out, bytes);
    fuzz_check(conf_parse_size(out.data, &again, &why) == GR_OK);
    fuzz_check(again == bytes);
    buf_fini(&out);
}

/* What is read in full is read in short, as the same time. */
static void try_time(const char *text, size_t n)
{
    char printed[RFC3339_BYTES];
    int64_t us, again, ms;

    if (rfc3339_parse(text, n, RFC3339_FULL, &us))
        fuzz_check(rfc3339_parse(text, n, RFC3339_SHORT, &again) &&
                   again == us);
    else if (!rfc3339_parse(text, n, RFC3339_SHORT, &us))
        return;
    ms = us / 1000 - (us % 1000 < 0);
    rfc3339(printed, ms);
    fuzz_check(rfc3339_parse(printed, strlen(printed), RFC3339_FULL, &again));
    if (strncmp(printed, "1000-01-01", 10) != 0 &&
        strncmp(printed, "9999-12-31", 10) != 0)
        fuzz_check(again == ms * 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    char *text = fuzz_text(&in);
    const char *why;
    struct rate rate;
    int64_t number;

    try_duration(text);
    try_size(text);
    try_time(text, strlen(text));
    if (conf_parse_int(text, &number, &why) != GR_OK)
        fuzz_check(why && *why);
    if (rate_parse(text, &rate, &why) == GR_OK)
        fuzz_check(rate.count > 0 && rate.per_ms > 0 &&
                   rate_interval_us(&rate) >= 0);
    free(text);
    return 0;
}
