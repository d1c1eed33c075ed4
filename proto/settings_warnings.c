/* Warnings: what a configuration may say and is likely a mistake. */
#include "backoff.h"
#include "guard.h"
#include "settings_types.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- log.errors ---- */

/* Beside the databases, by the name of one of Grapnel's own files. */
static bool is_own_name(const char *file)
{
    static const char *const ends[] = {".db",       ".db-wal", ".db-shm",
                                       ".db-start", ".lock",   ".flying"};
    size_t n = strlen(file);

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t m = strlen(ends[i]);

        if (n > m && strcmp(file + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Why lines can't be appended to this file, in `why`; false: they can. */
static bool is_unusable(const struct conf *c, const struct settings *s,
                        const char *path, char why[PATH_MAX + 200])
{
    const char *slash = strrchr(path, '/');
    char *folder = gr_strndup(path, (size_t)(slash - path) + (slash == path));
    struct stat st;
    bool there = stat(path, &st) == 0;

    *why = 0;
    if (is_same_file(folder, s->run_dir) ||
        (is_same_file(folder, s->state_dir) && is_own_name(slash + 1)))
        snprintf(why, PATH_MAX + 200,
                 "%s belongs to Grapnel's own files (%s): name another file",
                 path,
                 is_same_file(folder, s->run_dir) ? "run_dir" : "state_dir");
    else if (there && conf_has_file(c, path))
        snprintf(why, PATH_MAX + 200,
                 "%s is the configuration: name another file", path);
    else if (there && S_ISDIR(st.st_mode))
        snprintf(why, PATH_MAX + 200, "%s is a directory: name a file in it",
                 path);
    else if (there && (S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode)))
        snprintf(why, PATH_MAX + 200, "%s is not a regular file", path);
    else if (stat(folder, &st) != 0)
        snprintf(why, PATH_MAX + 200, "%s: %s: run `mkdir -p` for it", folder,
                 strerror(errno));
    else if (faccessat(AT_FDCWD, there ? path : folder,
                       there ? W_OK : W_OK | X_OK, AT_EACCESS) != 0)
        snprintf(why, PATH_MAX + 200,
                 "user %u can't write %s: %s: change its owner or its mode",
                 (unsigned)geteuid(), there ? path : folder, strerror(errno));
    free(folder);
    return *why;
}

/* No error: a folder that is missing stops no process, and may come back. */
static void check_log_errors(struct conf *c, const struct settings *s)
{
    char why[PATH_MAX + 200];

    if (s->log_errors && strchr(s->log_errors, '/') && s->run_dir &&
        s->state_dir && is_unusable(c, s, s->log_errors, why))
        conf_warn_at(c, s->log_errors,
                     "%s. Until then warnings and errors are on standard "
                     "error only",
                     why);
}

void settings_warn(struct conf *c, const struct settings *s)
{
    check_addresses(c, s);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_lane(c, s, &s->endpoints[i]);
    check_log_errors(c, s);
    if (conf_good(c))
        settings_warn_matches(c, s);
}
