/* status: `grapnel status`: the state, counters and troubles of every process. */
#include "ask.h"
#include "json_text.h"
#include "table.h"
#include "version.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

enum { METRICS_PER_LINE = 4 };

/* ---- collect ---- */

static json_t *ask_one(struct ctl *c, const char *name)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(c, name, "status", NULL, ASK_STATUS_MS, &unreachable,
                        why);

    if (!reply) {
        bool silent = unreachable && is_silent(c, name);

        reply = json_pack("{s:s, s:b, s:b, s:b, s:o}", "process", name, "up", 0,
                          "runs", !unreachable || silent, "silent", (int)silent,
                          "error", json_text_of(why));
    } else {
        json_object_set_new(reply, "up", json_true());
    }
    add_host(c, reply);
    return reply;
}

/* The console may be missing on purpose: it is a row only if its socket exists, or if no
 * process runs. */
static json_t *ask_them(struct ctl *c)
{
    bool any_up = false, console = false;
    json_t *all = json_array(), *s;
    struct processes p;
    size_t i;

    processes_find(c, &p);
    for (i = 0; i < p.count; i++) {
        json_array_append_new(all, ask_one(c, p.names[i]));
        console |= process_is(p.names[i], "console");
    }
    processes_fini(&p);
    json_array_foreach(all, i, s)
        any_up |= json_is_true(json_object_get(s, "up"));
    if (!any_up && !console)
        json_array_append_new(all, ask_one(c, "console"));
    return all;
}

/* ---- print ---- */

/* Where it runs; "": here, and no name of this host is known. */
static const char *host_of(const json_t *s)
{
    const char *host = text_of(s, "host");

    return *host ? host : text_of(json_object_get(s, "replication"), "host");
}

static void print_table(struct ctl *c, const json_t *all)
{
    const char *heads[] = {"PROCESS", "STATE", "VERSION",   "PID", "UP FOR",
                           "BACKLOG", "STORE", "DISK FREE", NULL,  NULL};
    bool hosts = false;
    char uptime[32], bytes[32], disk_free[32];
    json_t *s, *link;
    struct table t;
    size_t i, k;

    json_array_foreach(all, i, s) hosts |= *host_of(s) != 0;
    if (hosts)
        heads[8] = "HOST";
    table_init(&t, heads);
    json_array_foreach(all, i, s)
    {
        const char *host = host_of(s);
        const json_t *store = json_object_get(s, "store");
        int64_t backlog = 0; /* sent on its links, not acknowledged yet */

        table_add(&t, PLAIN, "%s", text_of(s, "process"));
        if (!json_is_true(json_object_get(s, "up"))) {
            table_add(&t, RED,
                      is_forbidden(c)                              ? "unknown"
                      : json_is_true(json_object_get(s, "silent")) ? "silent"
                      : json_is_true(json_object_get(s, "runs"))   ? "waits"
                                                                   : "down");
            for (k = 2; k < 8; k++)
                table_add(&t, PLAIN, "-");
            if (hosts)
                table_add(&t, PLAIN, "%s", *host ? host : "-");
            continue;
        }
        json_array_foreach(
            json_object_get(s, "links"), k,
            link) if (strcmp(text_of(link, "direction"), "out") == 0)
            backlog += integer_of(link, "backlog");
        table_add(&t, GREEN, "up");
        table_add(&t, PLAIN, "%s", text_of(s, "version"));
        table_add(&t, PLAIN, "%s", text_of(s, "pid"));
        table_add(&t, PLAIN, "%s",
                  human_ms(integer_of(s, "uptime_ms"), uptime));
        table_add(&t, PLAIN, "%lld", (long long)backlog);
        table_add(&t, PLAIN, "%s",
                  human_bytes(integer_of(store, "bytes"), bytes));
        table_add(&t, PLAIN, "%s",
                  human_bytes(integer_of(store, "free_bytes"), disk_free));
        if (hosts)
            table_add(&t, PLAIN, "%s", *host ? host : "-");
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

/* Takes `suffix` off the end of a name of *n bytes, if it is there. */
static bool cut_suffix(const char *name, size_t *n, const char *suffix)
{
    size_t k = strlen(suffix);

    if (*n <= k || memcmp(name + *n - k, suffix, k) != 0)
        return false;
    *n -= k;
    return true;
}

/* The metrics of a process that are not 0, by short names: the sequencer's
 * "grapnel_sequencer_events_taken_total" is "events_taken". */
static void print_metrics(const json_t *s)
{
    static const char ours[] = "grapnel_";
    const char *process = text_of(s, "process"), *key;
    size_t kind = strcspn(process, "-");
    json_t *value;
    int count = 0;

    json_object_foreach(json_object_get(s, "metrics"), key, value)
    {
        int64_t v = json_integer_value(value);
        const char *name = key;
        char bytes[32];
        size_t n;

        if (!v)
            continue;
        if (count % METRICS_PER_LINE == 0)
            printf("%s%-14s", count ? ",\n" : "", count ? "" : process);
        else
            printf(", ");
        count++;
        if (strncmp(name, ours, sizeof ours - 1) == 0)
            name += sizeof ours - 1;
        if (strncmp(name, process, kind) == 0 && name[kind] == '_')
            name += kind + 1;
        n = strlen(name);
        cut_suffix(name, &n, "_total");
        if (cut_suffix(name, &n, "_bytes"))
            printf("%.*s %s", (int)n, name, human_bytes(v, bytes));
        else
            printf("%.*s %lld", (int)n, name, (long long)v);
    }
    if (count)
        printf("\n");
}

/* What has happened on a link that an operator should know. */
static void print_troubles(struct ctl *c, const json_t *s)
{
    static const char *const counts[] = {"lost", "set_back", "unprocessable"};
    json_t *link;
    size_t i;

    json_array_foreach(json_object_get(s, "links"), i,
                       link) for (size_t k = 0; k < COUNT_OF(counts); k++)
    {
        int64_t n = integer_of(link, counts[k]);

        if (n)
            printf("%s%s: link %s %s: %lld %s%s\n",
                   colour_on(YELLOW, c->colour), text_of(s, "process"),
                   strcmp(text_of(link, "direction"), "in") ? "to" : "from",
                   text_of(link, "peer"), (long long)n, counts[k],
                   colour_off(YELLOW, c->colour));
    }
}

/* Endpoints that are held, disabled, paused or failing, and how many of their deliveries wait
 * on disk. */
static void print_endpoints(struct ctl *c, const json_t *s)
{
    int64_t more = integer_of(s, "troubles_more");
    json_t *t;
    size_t i;

    json_array_foreach(json_object_get(s, "troubles"), i, t)
    {
        int64_t n = integer_of(t, "waiting");
        char *why = harmless(text_of(t, "reason"));

        printf("%sEndpoint %s: %s since %s %s%s%s",
               colour_on(YELLOW, c->colour), text_of(t, "endpoint"),
               text_of(t, "state"), time_of(t, "since"), when_zone(),
               *why ? ": " : "", why);
        if (n)
            printf("; %lld%s %s on disk, without a limit", (long long)n,
                   json_is_true(json_object_get(t, "waiting_more")) ? " or more"
                                                                    : "",
                   n == 1 ? "delivery waits" : "deliveries wait");
        printf("%s\n", colour_off(YELLOW, c->colour));
        free(why);
    }
    if (more)
        printf("%sand %lld more %s: grapnel endpoints%s\n",
               colour_on(YELLOW, c->colour), (long long)more,
               more == 1 ? "endpoint" : "endpoints",
               colour_off(YELLOW, c->colour));
}

static void print_temporary(const json_t *s)
{
    json_t *t;
    size_t i;

    json_array_foreach(json_object_get(s, "temporary"), i, t)
    {
        printf("Endpoint %s: temporary; ", text_of(t, "endpoint"));
        if (*text_of(t, "expires_at"))
            printf("deleted at %s %s if unused; ", time_of(t, "expires_at"),
                   when_zone());
        printf("%s waiting\n", text_of(t, "waiting"));
    }
}

/* The largest value of a series without labels, in ms. -1: no process reports it. */
static int64_t largest_ms(const json_t *all, const char *name)
{
    double max = -1;
    json_t *s, *one;
    size_t i, k;

    json_array_foreach(all, i, s) json_array_foreach(
        json_object_get(s, "series"), k,
        one) if (strcmp(text_of(one, "name"), name) == 0 &&
                 json_number_value(json_object_get(one, "value")) > max)
        max = json_number_value(json_object_get(one, "value"));
    return max < 0 ? -1 : (int64_t)(max * 1000);
}

static void print_rates(const json_t *all)
{
    static const char *const rates[][2] = {
        {"accepted", "grapnel_ingress_accepted_total"},
        {"delivered", "grapnel_deliveries_delivered_total"},
        {"retried", "grapnel_deliveries_retried_total"},
        {"dead", "grapnel_deliveries_dead_total"}};
    const char *comma = "";
    char age[32];
    json_t *s, *r;
    size_t k;
    int64_t oldest = largest_ms(all, "grapnel_oldest_open_seconds");
    int64_t at_ingress = largest_ms(all,
                                    "grapnel_ingress_backlog_oldest_seconds");

    printf("Rates   ");
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        double sum = -1; /* over all processes; -1: none reports it yet */

        json_array_foreach(all, k, s)
        {
            r = json_object_get(json_object_get(s, "rates"), rates[i][1]);
            if (r)
                sum = (sum < 0 ? 0 : sum) + json_number_value(r);
        }
        if (sum < 0)
            continue;
        printf("%s %s %.1f/s", comma, rates[i][0], sum);
        comma = ",";
    }
    printf("%s\n",
           *comma ? "" : " not known before the second metrics.interval");
    if (at_ingress > oldest)
        oldest = at_ingress;
    if (oldest >= 0)
        printf(
            "Waiting  the oldest event whose deliveries have not ended: %s\n",
            oldest ? human_ms(oldest, age) : "none");
}

int run_status(struct ctl *c)
{
    json_t *all = ask_them(c), *s;
    size_t i;
    int code;

    if (c->json) {
        print_json(json_incref(all));
    } else {
        print_table(c, all);
        version_print_mixed(c, all);
        printf("\n");
        print_rates(all);
        json_array_foreach(all, i, s) print_endpoints(c, s);
        json_array_foreach(all, i, s) print_temporary(s);
        printf("\n");
        json_array_foreach(all, i, s) print_metrics(s);
        json_array_foreach(all, i, s) print_troubles(c, s);
    }
    fflush(stdout);
    code = complain_all_away(c, all, "up");
    json_decref(all);
    return code;
}
