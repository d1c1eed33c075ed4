/* Warnings: what a configuration may say, and what is likely a mistake. */
#include "backoff.h"
#include "guard.h"
#include "settings_types.h"
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LANE_BLOCKED_MS = HOUR_MS, /* from here on it is worth a warning */
    WAITS_MOST = 100000,       /* of one policy that are added up */
};

/* ---- private addresses ---- */

/* The host of a URL; the caller's. */
static char *host_of(const char *url)
{
    const char *at = strstr(url, "://"), *user;
    size_t n;

    at = at ? at + 3 : url;
    n = strcspn(at, "/?#");
    user = memrchr(at, '@', n);
    if (user) {
        n -= (size_t)(user + 1 - at);
        at = user + 1;
    }
    if (*at == '[')
        return gr_strndup(at + 1, strcspn(at + 1, "]"));
    return gr_strndup(at, strcspn(at, ":") < n ? strcspn(at, ":") : n);
}

static bool is_localhost(const char *host)
{
    static const char name[] = "localhost";
    size_t n = strlen(host), m = sizeof name - 1;

    return n >= m && strcasecmp(host + n - m, name) == 0 &&
           (n == m || host[n - m - 1] == '.');
}

/* Written as a number, in whatever form; names are not looked up. */
static bool is_blocked(const struct guard *g, const char *host)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST,
                                     .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool blocked;

    if (is_localhost(host))
        return !guard_allows_text(g, "127.0.0.1", 0) &&
               !guard_allows_text(g, "::1", 0);
    if (getaddrinfo(host, NULL, &numeric, &found) != 0)
        return false;
    blocked = !guard_allows(g, found->ai_addr);
    freeaddrinfo(found);
    return blocked;
}

static void check_address(struct conf *c, const char *url, bool allow_private,
                          struct cidr *cidrs, size_t count)
{
    const struct guard g = {
        .allow_private = allow_private, .cidrs = cidrs, .count = count};
    char *host;

    if (!url)
        return;
    host = host_of(url);
    if (is_blocked(&g, host))
        conf_warn_at(c, url,
                     "%.100s is a private address: each request to it fails "
                     "before it is sent (blocked_address). Set `allow_private: "
                     "true` beside it, or a list of networks such as "
                     "[127.0.0.0/8]",
                     host);
    free(host);
}

static void check_addresses(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];

        if (e->enabled)
            check_address(c, e->url, e->allow_private, e->allow_cidrs,
                          e->allow_cidr_count);
    }
    for (size_t i = 0; i < s->source_count; i++) {
        const struct order *o = &s->sources[i].order;

        check_address(c, o->backfill, o->allow_private, o->allow_cidrs,
                      o->allow_cidr_count);
    }
    for (size_t i = 0; i < s->notifier_count; i++) {
        const struct notifier *n = &s->notifiers[i];

        check_address(c, n->webhook, n->allow_private, n->allow_cidrs,
                      n->allow_cidr_count);
    }
}

/* ---- ordered lanes ---- */

/* From the first attempt to the last, without what an endpoint asks for. */
static int64_t longest_ms(const struct retry_policy *p)
{
    int64_t sum = 0;
    int64_t most = p->max_attempts ? p->max_attempts : WAITS_MOST;

    for (int64_t k = 1; k < most && k < WAITS_MOST; k++) {
        int64_t wait = backoff_wait_ms(p, (uint64_t)k);

        if (wait < 0)
            break;
        sum += wait + (int64_t)((double)wait * p->jitter_part);
        if (p->max_duration_ms && sum >= p->max_duration_ms)
            return p->max_duration_ms;
    }
    return sum;
}

static const struct retry_policy *policy_of(const struct settings *s,
                                            const struct endpoint_settings *e)
{
    const char *name = e->retry_policy ? e->retry_policy
                                       : s->defaults.retry_policy;

    for (size_t i = 0; name && i < s->policy_count; i++)
        if (s->policies[i].name && strcmp(s->policies[i].name, name) == 0)
            return &s->policies[i];
    return NULL;
}

static void check_lane(struct conf *c, const struct settings *s,
                       const struct endpoint_settings *e)
{
    const struct retry_policy *p = policy_of(s, e);
    int64_t ms = p ? longest_ms(p) : 0;

    if (e->ordered == LANES_NONE || !e->enabled || !e->name ||
        ms < LANE_BLOCKED_MS)
        return;
    conf_warn_at(c, e->name,
                 "deliveries are ordered (%s): one event that keeps failing "
                 "holds back those behind it for up to %lld.%lld hours (retry "
                 "policy %s). Choose a policy that gives up sooner, such as "
                 "`retry_policy: strict`",
                 e->ordered == LANES_ALL ? "all" : "workspace",
                 (long long)(ms / HOUR_MS),
                 (long long)(ms % HOUR_MS * 10 / HOUR_MS), p->name);
}

void settings_warn(struct conf *c, const struct settings *s)
{
    check_addresses(c, s);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_lane(c, s, &s->endpoints[i]);
}
