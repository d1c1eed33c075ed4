/* settings_checks: checks that a table of keys cannot express: names across sections
 * (errors), and what is allowed but probably a mistake (warnings). */
#include "alloc.h"
#include "backoff.h"
#include "config.h"
#include "glob.h"
#include "guard.h"
#include "network.h"
#include "operational.h"
#include "route.h"
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

/* ======== errors across sections ======== */

struct named {
    const char *name;
    size_t nth;
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    if (order)
        return order;
    return a->nth < b->nth ? -1 : a->nth > b->nth;
}

/* `first` points to the name in the first struct; structs are `size` apart. */
static const char *name_at(const void *first, size_t size, size_t i)
{
    return *(const char *const *)((const char *)first + i * size);
}

static void check_names(struct conf *c, const void *first, size_t size,
                        size_t count, const char *what)
{
    struct named *all = gr_alloc(count * sizeof *all);
    struct buf where;
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i))
            all[n++] = (struct named){name_at(first, size, i), i};
    qsort(all, n, sizeof *all, by_name);
    buf_init(&where, PATH_MAX + 32);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(all[i - 1].name, all[i].name) != 0)
            continue;
        buf_reset(&where);
        conf_where(c, all[i - 1].name, &where);
        conf_error_at(c, all[i].name, "another %s has this name (%s)", what,
                      where.data);
    }
    buf_fini(&where);
    free(all);
}

static bool names_any(const void *first, size_t size, size_t count,
                      const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i) && !strcmp(name_at(first, size, i), name))
            return true;
    return false;
}

/* Reports a name that is not one of these. */
static void check_reference(struct conf *c, const char *text, const void *first,
                            size_t size, size_t count, const char *what)
{
    struct conf_near near = {.text = text};
    char hint[100];

    if (names_any(first, size, count, text))
        return;
    for (size_t i = 0; i < count; i++)
        if (name_at(first, size, i))
            conf_near_try(&near, name_at(first, size, i));
    conf_error_at(c, text, "there is no %s \"%.63s\"%s", what, text,
                  conf_near_hint(&near, hint));
}

/* `operational`: a subscription, which may name the source of operational events, too. */
static void check_source_names(struct conf *c, const struct settings *s,
                               const struct string_list *names,
                               bool operational)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strchr(names->items[i], '*') &&
            !(operational &&
              strcmp(names->items[i], OPERATIONAL_SOURCE) == 0) &&
            !settings_producer(s, names->items[i]))
            check_reference(c, names->items[i], s->sources, sizeof *s->sources,
                            s->source_count, "source");
}

void settings_check_policy_name(struct conf *c, const struct settings *s,
                                const char *name)
{
    if (name)
        check_reference(c, name, s->policies, sizeof *s->policies,
                        s->policy_count, "retry policy");
}

/* A producer is a source of its name, and a token identifies one producer. */
static void check_producers(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->producer_count; i++) {
        const struct producer *p = &s->producers[i];

        if (p->name && settings_source(s, p->name))
            conf_error_at(c, p->name,
                          "a source has this name; a producer is also a "
                          "source, so choose another name");
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; k < p->tokens.count; k++)
                if (string_list_has(&s->producers[j].tokens,
                                    p->tokens.items[k]))
                    conf_error_at(c, p->tokens.items[k],
                                  "another producer has this token; each "
                                  "producer needs its own");
    }
}

static void check_reserved(struct conf *c, const void *first, size_t size,
                           size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(first, size, i);

        if (name && strcmp(name, OPERATIONAL_SOURCE) == 0)
            conf_error_at(c, name,
                          "a %s cannot have the name \"" OPERATIONAL_SOURCE
                          "\": it is the source of Grapnel's own events; "
                          "choose another name",
                          what);
    }
}

static void check_alerts(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->alert_count; i++) {
        const struct alert_rule *r = &s->alerts[i];

        check_source_names(c, s, &r->sources, false);
        for (size_t k = 0; k < r->endpoints.count; k++)
            if (!strchr(r->endpoints.items[k], '*'))
                check_reference(c, r->endpoints.items[k], s->endpoints,
                                sizeof *s->endpoints, s->endpoint_count,
                                "endpoint");
        for (size_t k = 0; k < r->notify.count; k++)
            check_reference(c, r->notify.items[k], s->notifiers,
                            sizeof *s->notifiers, s->notifier_count,
                            "notifier");
    }
    for (size_t k = 0; k < s->audit.notify.count; k++)
        check_reference(c, s->audit.notify.items[k], s->notifiers,
                        sizeof *s->notifiers, s->notifier_count, "notifier");
}

void settings_check_policies(struct conf *c, const struct settings *s,
                             size_t declared)
{
    check_names(c, s->policies, sizeof *s->policies, declared, "retry policy");
    settings_check_policy_name(c, s, s->defaults.retry_policy);
    for (size_t i = 0; i < s->endpoint_count; i++)
        settings_check_policy_name(c, s, s->endpoints[i].retry_policy);
    for (size_t i = 0; i < s->relay_count; i++)
        settings_check_policy_name(c, s, s->relays[i].retry_policy);
    for (size_t i = 0; i < s->route_count; i++)
        settings_check_policy_name(c, s, s->routes[i].choice.policy);
}

/* What the history has forgotten would be missing in it. */
static void check_reconciled(struct conf *c, const struct settings *s)
{
    for (size_t i = 0; i < s->source_count; i++) {
        const struct reconcile *r = &s->sources[i].reconcile;

        if (r->every_ms && s->sources[i].name &&
            r->look_back_ms + r->grace_ms + r->every_ms > s->history_keep_ms)
            conf_error_at(c, s->sources[i].name,
                          "reconcile looks back further than history.keep: "
                          "make `look_back`, `grace` and `every` shorter, "
                          "or history.keep longer");
    }
}

/* ---- two keys that listen at one address ---- */

struct listener {
    const char *key, *text; /* `text` has its place in the file */
    const char *host;       /* without brackets */
    size_t host_bytes;
    long port;
};

/* The address as bytes; false: it is a name. ZeroMQ's * is each address of IPv4. */
static bool host_address(const struct listener *l, uint8_t out[16])
{
    char host[INET6_ADDRSTRLEN];
    size_t n = l->host_bytes;

    if (n >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)n, l->host);
    return address_parse(out, strcmp(host, "*") == 0           ? "0.0.0.0"
                              : strcmp(host, "localhost") == 0 ? "127.0.0.1"
                                                               : host);
}

/* Whether both bind the same port of one address. [::] is each address of both kinds. A name other
 * than localhost meets only itself: names are not looked up. */
static bool listeners_meet(const struct listener *a, const struct listener *b)
{
    static const uint8_t any[16];
    uint8_t x[16], y[16], any4[16];

    if (a->port != b->port)
        return false;
    if (!host_address(a, x) || !host_address(b, y))
        return a->host_bytes == b->host_bytes &&
               strncasecmp(a->host, b->host, a->host_bytes) == 0;
    if (!memcmp(x, y, sizeof x) || !memcmp(x, any, sizeof x) ||
        !memcmp(y, any, sizeof y))
        return true;
    return address_parse(any4, "0.0.0.0") && address_is_v4(x) &&
           address_is_v4(y) &&
           (!memcmp(x, any4, sizeof x) || !memcmp(y, any4, sizeof y));
}

/* Only a warning if two processes listen, as they may be in two containers. */
static void check_listeners(struct conf *c, const struct listener *a,
                            const struct listener *b, bool of_one_process)
{
    static const char format[] =
        "listens at the same address and port as %s%s: choose another port";

    if (!a->text || !b->text || !listeners_meet(a, b))
        return;
    /* The process of a key that is not set may not be in use. */
    if (conf_is_default(c, a->text))
        conf_warn_at(c, b->text, format, a->key, " (by default)");
    else if (conf_is_default(c, b->text))
        conf_warn_at(c, a->text, format, b->key, " (by default)");
    else if (!of_one_process)
        conf_warn_at(c, a->text, format, b->key, "");
    else
        conf_error_at(c, a->text, format, b->key, "");
}

static struct listener listener_of(const char *key, const char *host, int port)
{
    return (struct listener){key, host, host, host ? strlen(host) : 0, port};
}

/* "tcp://HOST:PORT"; another address has no port, and meets nothing. */
static struct listener publisher_of(const char *address)
{
    struct listener l = {.key = "metrics.publish"};
    const char *colon = address ? strrchr(address, ':') : NULL;

    if (!colon || strncmp(address, "tcp://", 6) != 0)
        return l;
    l.text = address;
    l.host = address + strlen("tcp://");
    l.host_bytes = (size_t)(colon - l.host);
    l.port = strtol(colon + 1, NULL, 10);
    if (*l.host == '[') {
        l.host++;
        l.host_bytes -= 2;
    }
    return l;
}

/* Ingress and the console can be on two hosts, with the same file, if `cluster.peers` has one of
 * them. */
static bool may_be_apart(const struct settings *s)
{
    for (size_t i = 0; i < s->cluster.peer_count; i++) {
        const char *name = s->cluster.peers[i].name;

        if (name && (strncmp(name, "ingress", 7) == 0 ||
                     strncmp(name, "console", 7) == 0))
            return true;
    }
    return false;
}

static void check_ports(struct conf *c, const struct settings *s)
{
    const struct listener ingress = listener_of("ingress.listen",
                                                s->ingress.host,
                                                s->ingress.port),
                          console = listener_of("console.listen",
                                                s->console.host,
                                                s->console.port),
                          publisher = publisher_of(s->metrics_publish);

    check_listeners(c, &publisher, &console, true);
    if (may_be_apart(s))
        return;
    check_listeners(c, &console, &ingress, false);
    check_listeners(c, &publisher, &ingress, false);
}

void settings_check_across(struct conf *c, const struct settings *s,
                           size_t declared_alerts)
{
    check_names(c, s->sources, sizeof *s->sources, s->source_count, "source");
    check_reconciled(c, s);
    check_names(c, s->producers, sizeof *s->producers, s->producer_count,
                "producer");
    check_producers(c, s);
    check_reserved(c, s->sources, sizeof *s->sources, s->source_count,
                   "source");
    check_reserved(c, s->producers, sizeof *s->producers, s->producer_count,
                   "producer");
    check_names(c, s->relays, sizeof *s->relays, s->relay_count, "relay");
    check_reserved(c, s->relays, sizeof *s->relays, s->relay_count, "relay");
    settings_check_relays(c, s);
    check_names(c, s->endpoints, sizeof *s->endpoints, s->endpoint_count,
                "endpoint");
    check_names(c, s->alerts, sizeof *s->alerts, declared_alerts, "alert");
    check_names(c, s->notifiers, sizeof *s->notifiers, s->notifier_count,
                "notifier");
    check_alerts(c, s);
    check_ports(c, s);
    settings_check_cluster(c, s);
    settings_check_replicate(c, s);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_source_names(c, s, &s->endpoints[i].sources, true);
    for (size_t i = 0; i < s->route_count; i++) {
        const struct route *r = &s->routes[i];

        check_source_names(c, s, &r->sources, true);
        for (size_t k = 0; k < r->endpoints.count; k++)
            check_reference(c, r->endpoints.items[k], s->endpoints,
                            sizeof *s->endpoints, s->endpoint_count,
                            "endpoint");
    }
}

void settings_drop_hidden(const struct conf_section *section, void *items,
                          size_t declared, size_t *count)
{
    size_t size = section->size, kept = declared;
    char *all = items;

    for (size_t i = declared; i < *count; i++) {
        if (names_any(all, size, declared, name_at(all, size, i)))
            conf_fini(section, all + i * size);
        else
            memmove(all + kept++ * size, all + i * size, size);
    }
    *count = kept;
}

/* ======== warnings ======== */

enum {
    LANE_BLOCKED_MS = HOUR_MS, /* a larger value gets a warning */
    TOKEN_MIN_BYTES = 16,      /* a shorter token gets one */
};

/* ---- private addresses ---- */

/* The host of a URL; the caller frees it. */
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

/* Whether a host that is written as a number, in any form, is blocked; names are not looked
 * up. */
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

char *settings_blocked_host(const char *url, const struct allow_private *allow)
{
    const struct guard g = {.allow = *allow};
    char *host = url ? host_of(url) : NULL;

    if (host && is_blocked(&g, host))
        return host;
    free(host);
    return NULL;
}

static void check_address(struct conf *c, const char *url,
                          const struct allow_private *allow)
{
    char *host = settings_blocked_host(url, allow);

    if (host)
        conf_warn_at(
            c, url,
            "%.100s is a private address: every request to it is blocked "
            "(blocked_address). To permit it, set `allow_private: true` or a "
            "list of networks such as [127.0.0.0/8]",
            host);
    free(host);
}

/* ---- tokens that can be guessed ---- */

/* Only a warning: an error would stop a pipeline that has worked so far. */
static void check_tokens(struct conf *c, const struct string_list *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (strlen(tokens->items[i]) < TOKEN_MIN_BYTES)
            conf_warn_at(c, tokens->items[i],
                         "is shorter than %d characters, so it can be guessed: "
                         "make a token with `openssl rand -hex 32`",
                         TOKEN_MIN_BYTES);
}

/* ---- ordered lanes ---- */

static const struct retry_policy *policy_of(const struct settings *s,
                                            const struct endpoint_settings *e)
{
    const char *name = e->retry_policy ? e->retry_policy
                                       : s->defaults.retry_policy;

    return name ? settings_policy(s, name) : NULL;
}

static void check_lane(struct conf *c, const struct settings *s,
                       const struct endpoint_settings *e)
{
    const struct retry_policy *p = policy_of(s, e);
    int64_t ms = p ? backoff_span_ms(p, true) : 0;

    if (e->ordered == LANES_NONE || !e->enabled || !e->name ||
        ms < LANE_BLOCKED_MS)
        return;
    conf_warn_at(
        c, e->name,
        "deliveries are ordered (%s): one event that keeps failing delays "
        "later events for up to %lld.%lld hours (retry policy %s). Choose a "
        "policy that ends sooner, such as `retry_policy: strict`",
        e->ordered == LANES_ALL ? "all" : "workspace",
        (long long)(ms / HOUR_MS), (long long)(ms % HOUR_MS * 10 / HOUR_MS),
        p->name);
}

/* ---- two time limits ---- */

/* An endpoint's timeout that is that of the defaults was probably not set for it. */
static void check_timeout(struct conf *c, const struct settings *s,
                          const struct endpoint_settings *e)
{
    const struct retry_policy *p = policy_of(s, e);
    struct buf limit;

    if (!p || !p->attempt_ms || !e->name ||
        e->timeout_ms == s->defaults.timeout_ms ||
        e->timeout_ms == p->attempt_ms)
        return;
    buf_init(&limit, 40);
    conf_put_duration(&limit, p->attempt_ms);
    conf_warn_at(c, e->name,
                 "its `timeout` has no effect: that of retry policy %s (%s) "
                 "applies. Remove it, or choose a policy without `timeout`",
                 p->name, limit.data);
    buf_fini(&limit);
}

/* ---- choices that no endpoint allows ---- */

static void check_choice(struct conf *c, const struct settings *s,
                         const struct route *r)
{
    size_t refused = 0;

    if ((!r->choice.policy && !r->choice.max_attempts) || !r->endpoints.count)
        return;
    for (size_t i = 0; i < r->endpoints.count; i++) {
        const struct endpoint_settings *e = settings_endpoint(
            s, r->endpoints.items[i]);

        refused += e && e->retry_choice == RETRY_CHOICE_NONE;
    }
    if (refused == r->endpoints.count)
        conf_warn_at(
            c, r->choice.policy ? r->choice.policy : r->endpoints.items[0],
            "the choice of this route has no effect: each of its "
            "endpoints has `retry_choice: none`");
}

/* ---- log.errors ---- */

/* Whether it would be among the databases, with the name of one of Grapnel's own files. */
static bool is_own_name(const char *file)
{
    static const char *const ends[] = {".db",       ".db-wal", ".db-shm",
                                       ".db-start", ".lock",   ".inflight"};
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

/* Whether lines cannot be appended to this file; if so, `why` gets the reason. */
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
                 "%s is one of Grapnel's own files (%s): choose another file",
                 path,
                 is_same_file(folder, s->run_dir) ? "run_dir" : "state_dir");
    else if (there && conf_has_file(c, path))
        snprintf(why, PATH_MAX + 200,
                 "%s is the configuration: choose another file", path);
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

/* ======== warnings of subscriptions and senders that do not meet ======== */

struct matching {
    struct conf *conf;
    const struct settings *settings;
    /* the sources and producers, and behind them the source of operational events */
    struct sender *senders;
    size_t sender_count;
};

/* A list with this one item, which is not copied. */
static struct string_list only(char **item)
{
    return (struct string_list){item, 1};
}

/* ---- a subscription, and who can match it ---- */

static bool any_meets(const struct matching *m, const struct subscription *w)
{
    for (size_t i = 0; i < m->sender_count; i++)
        if (subscription_meets(w, &m->senders[i]))
            return true;
    return false;
}

/* Tries each pattern of one list of `w` alone: `part` points to the list. true: it warned
 * of none. */
static bool check_patterns(const struct matching *m,
                           const struct subscription *w,
                           const struct string_list **part, const char *what)
{
    const struct string_list *all = *part;
    bool good = true;

    for (size_t i = 0; i < all->count; i++) {
        struct string_list one = only(&all->items[i]);

        *part = &one;
        if (any_meets(m, w))
            continue;
        conf_warn_at(
            m->conf, all->items[i],
            "no event can match %.100s: the sources and producers of this "
            "subscription send no such %s. Compare it with their `%ss`",
            all->items[i], what, what);
        good = false;
    }
    *part = all;
    return good;
}

static bool warn_sources(const struct matching *m,
                         const struct string_list *sources)
{
    bool good = true;

    for (size_t i = 0; i < sources->count; i++) {
        static const struct string_list all = {0};
        struct string_list one = only(&sources->items[i]);
        const struct subscription named = {&one, &all, &all, NULL};
        bool found = any_meets(m, &named);

        if (!found)
            conf_warn_at(m->conf, sources->items[i],
                         "no source or producer has a name that matches "
                         "%.100s, so this subscription delivers nothing",
                         sources->items[i]);
        good = good && found;
    }
    return good;
}

/* `name` is the place for warnings that no single list explains. */
static void check_subscription(const struct matching *m, struct subscription *w,
                               const char *name)
{
    static const struct string_list all = {0};
    struct subscription types = {w->sources, w->types, &all, w->where};
    struct subscription workspaces = {w->sources, &all, w->workspaces,
                                      w->where};
    bool good = warn_sources(m, w->sources);

    if (!good &&
        !any_meets(m, &(struct subscription){w->sources, &all, &all, w->where}))
        return; /* the other warnings would follow from it */
    good = check_patterns(m, &types, &types.types, "type") && good;
    good = check_patterns(m, &workspaces, &workspaces.workspaces,
                          "workspace") &&
           good;
    if (good && !any_meets(m, w))
        conf_warn_at(m->conf, name,
                     "no source or producer can send an event with these types "
                     "and workspaces, so this subscription delivers nothing");
}

static void check_subscriptions(const struct matching *m)
{
    const struct settings *s = m->settings;

    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct subscription own = route_own_subscription(e);

        if (e->enabled && route_has_conditions(e))
            check_subscription(m, &own, e->name);
    }
    for (size_t i = 0; i < s->route_count; i++) {
        const struct route *r = &s->routes[i];
        struct subscription w = route_subscription(r);

        if (r->endpoints.count)
            check_subscription(m, &w, r->endpoints.items[0]);
    }
}

/* ---- a sender, and who is subscribed to it ---- */

static bool route_is_used(const struct settings *s, const struct route *r)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (s->endpoints[i].enabled && route_names(r, s->endpoints[i].name))
            return true;
    return false;
}

static bool is_selected(const struct settings *s, const struct sender *sender)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        const struct endpoint_settings *e = &s->endpoints[i];
        struct subscription own = route_own_subscription(e);

        if (e->enabled && route_has_own(s, e) &&
            subscription_meets(&own, sender))
            return true;
    }
    for (size_t i = 0; i < s->route_count; i++) {
        struct subscription w = route_subscription(&s->routes[i]);

        if (subscription_meets(&w, sender) && route_is_used(s, &s->routes[i]))
            return true;
    }
    return false;
}

static void check_sender(const struct matching *m, const struct sender *all)
{
    struct sender sender = *all;

    if (!is_selected(m->settings, all)) {
        conf_warn_at(m->conf, all->name,
                     "no endpoint is subscribed to it: its events are stored, "
                     "but not delivered");
        return;
    }
    for (size_t i = 0; i < all->types->count; i++) {
        struct string_list one = only(&all->types->items[i]);

        sender.types = &one;
        if (!is_selected(m->settings, &sender))
            conf_warn_at(m->conf, one.items[0],
                         "no endpoint is subscribed to %.100s of %s: such "
                         "events are stored, but not delivered",
                         one.items[0], all->name);
    }
}

/* A file without sources or without endpoints is still being written; the plan of `check`
 * says what is not delivered. */
static void warn_matches(struct conf *c, const struct settings *s)
{
    static const struct string_list all = {0};
    struct matching m = {.conf = c, .settings = s};

    if (!s->endpoint_count ||
        !(s->source_count + s->producer_count + s->relay_count))
        return;
    m.senders = gr_alloc(
        (s->source_count + s->producer_count + s->relay_count + 1) *
        sizeof *m.senders);
    for (size_t i = 0; i < s->source_count; i++)
        m.senders[m.sender_count++] = route_source(&s->sources[i]);
    for (size_t i = 0; i < s->producer_count; i++)
        m.senders[m.sender_count++] = route_producer(&s->producers[i]);
    for (size_t i = 0; i < s->relay_count; i++)
        m.senders[m.sender_count++] = (struct sender){s->relays[i].name, &all,
                                                      &all};
    m.senders[m.sender_count++] = (struct sender){OPERATIONAL_SOURCE,
                                                  &operational_types, &all};
    check_subscriptions(&m);
    for (size_t i = 0; i + 1 < m.sender_count; i++)
        check_sender(&m, &m.senders[i]);
    free(m.senders);
}

void settings_warn(struct conf *c, const struct settings *s)
{
    char why[PATH_MAX + 200];

    for (size_t i = 0; i < s->endpoint_count; i++)
        if (s->endpoints[i].enabled)
            check_address(c, s->endpoints[i].url,
                          &s->endpoints[i].allow_private);
    for (size_t i = 0; i < s->source_count; i++)
        check_address(c, s->sources[i].order.backfill,
                      &s->sources[i].order.allow_private);
    for (size_t i = 0; i < s->notifier_count; i++)
        check_address(c, s->notifiers[i].webhook,
                      &s->notifiers[i].allow_private);
    check_tokens(c, &s->console.tokens);
    for (size_t i = 0; i < s->producer_count; i++)
        check_tokens(c, &s->producers[i].tokens);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_lane(c, s, &s->endpoints[i]);
    for (size_t i = 0; i < s->endpoint_count; i++)
        check_timeout(c, s, &s->endpoints[i]);
    for (size_t i = 0; i < s->route_count; i++)
        check_choice(c, s, &s->routes[i]);
    for (size_t i = 0; i < s->source_count; i++) {
        const char *path = s->sources[i].reconcile.token_file;

        if (path && access(path, R_OK) != 0)
            conf_warn_at(c, path,
                         "cannot be read by this user: %s; grapnel-reconcile "
                         "reads it for each run",
                         strerror(errno));
    }
    settings_warn_replicate(c, s);
    /* A warning, because a missing folder stops no process and may come back. */
    if (s->log_errors && strchr(s->log_errors, '/') && s->run_dir &&
        s->state_dir && is_unusable(c, s, s->log_errors, why))
        conf_warn_at(c, s->log_errors,
                     "%s. Until then warnings and errors are written to "
                     "standard error only",
                     why);
    if (conf_good(c))
        warn_matches(c, s);
}
