/* A rate in grapnel.yaml: `50/s`; none when absent. */
#include "clock.h"
#include "conf.h"
#include "settings_types.h"
#include <stdlib.h>

static void read_rate(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char *text = conf_scalar(v, "a rate like 50/s");
    const char *why;

    (void)k;
    if (text && rate_parse(text, target, &why) != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    free(text);
}

static void print_rate(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct rate *r = target;

    (void)k, (void)indent;
    buf_printf(out, " %lld/%s\n", (long long)r->count,
               r->per_ms == SECOND_MS   ? "s"
               : r->per_ms == MINUTE_MS ? "m"
                                        : "h");
}

static bool unset_rate(const struct conf_key *k, const void *target)
{
    const struct rate *r = target;

    (void)k;
    return r->count == 0;
}

const struct conf_type settings_as_rate = {
    .name = "rate like `50/s` (`s`, `m` or `h`)",
    .read = read_rate,
    .print = print_rate,
    .unset = unset_rate,
};
