/* fuzz_pattern: a regular expression and a text: the input up to the first 0 byte, and the rest. A
 * match enters at most as many states as the lengths bound. With fewer it finds the same, or gives
 * up. A refused expression has a place and a reason. */
#include "fuzz.h"
#include "json_text.h"
#include "pattern.h"

static void find(const struct pattern *p, struct bytes text)
{
    int64_t most = 3 * ((int64_t)text.n + 2) * ((int64_t)pattern_states(p) + 1);
    int64_t visits = most, fewer = most / 7;
    enum pattern_found found = pattern_find(p, text, &visits), again;

    fuzz_check(found != PATTERN_TOO_LONG && visits >= 0);
    again = pattern_find(p, text, &fewer);
    fuzz_check(again == found || again == PATTERN_TOO_LONG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct bytes expression = fuzz_part(&in), text = fuzz_rest(&in);
    struct pattern_wrong wrong;
    struct pattern *p;

    if (!utf8_valid(expression) || !utf8_valid(text)) {
        free((char *)(uintptr_t)text.p);
        return 0;
    }
    p = pattern_new(expression, PATTERN_STATES_MAX, &wrong);
    if (p)
        find(p, text);
    else
        fuzz_check(*wrong.why && wrong.at >= 1 && wrong.at <= expression.n + 1);
    pattern_free(p);
    free((char *)(uintptr_t)text.p);
    return 0;
}
