/* How the receiver responds: a list of rules, the first whose path fits counts.
 *
 *   [{"path": "/crm", "per": "event", "responses": [
 *      {"status": 503, "headers": {"Retry-After": "1"}, "times": 2},
 *      {"status": 200, "body": "ok", "delay_ms": 20}]}]
 *
 * path     exact, or a beginning that ends in `*`
 * per      "event": each webhook-id goes through the responses by itself;
 *          "all" (default): all requests share one turn
 * responses  taken one by one, each `times` times (default 1), the last for ever
 * action   respond (default); cut (one byte short of its Content-Length, then
 *          close); close (FIN, no response); reset (RST); blackhole (never)
 * raw      sent instead of status, headers and body, then closed */
#ifndef RIG_RULES_H
#define RIG_RULES_H

#include "text.h"

enum action { RESPOND, CUT, CLOSE, RESET, BLACKHOLE };

extern const char *const action_names[];

struct response {
    enum action action;
    int status; /* 0 when there is none to speak of */
    int64_t delay_us;
    int64_t times;
    int close; /* after it */
    struct text bytes;
};

struct rules;

/* NULL with a reason (caller frees) when the JSON is not a list of rules. */
struct rules *rules_parse(const char *json, size_t len, char **reason);
void rules_free(struct rules *rules);

/* The response for this request; borrowed from the rules. No rule: a plain 200. */
const struct response *rules_pick(struct rules *rules, const char *path,
                                  size_t path_len, const char *id,
                                  size_t id_len);

#endif
