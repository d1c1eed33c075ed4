/* status: how every process is. */
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

    if (!reply)
        return json_pack("{s:s, s:b, s:o}", "process", name, "up", 0, "error",
                         json_text_of(why));
    json_object_set_new(reply, "up", json_true());
    return reply;
}

/* Rows that wait for others: what is not yet acknowledged on outgoing links. */
static int64_t backlog(const json_t *status)
{
    int64_t sum = 0;
    json_t *link;
    size_t i;

    json_array_foreach(json_object_get(status, "links"), i, link)
    {
        const char *way = json_string_value(json_object_get(link, "direction"));

        if (way && strcmp(way, "out") == 0)
            sum += json_integer_value(json_object_get(link, "backlog"));
    }
    return sum;
}

static bool is_any_up(const json_t *all)
{
    json_t *s;
    size_t i;

    json_array_foreach(
        all, i, s) if (json_is_true(json_object_get(s, "up"))) return true;
    return false;
}

static bool is_there(const struct processes *p, const char *kind)
{
    for (size_t i = 0; i < p->count; i++)
        if (process_rank(p->names[i]) == process_rank(kind))
            return true;
    return false;
}

/* The console may be missing on purpose, so it is asked for only when it has left
 * traces, or when nothing else runs. */
static json_t *ask_them(struct ctl *c)
{
    struct processes p;
    json_t *all = json_array();

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++)
        json_array_append_new(all, ask_one(c, p.names[i]));
    if (!is_any_up(all) && !is_there(&p, "console"))
        json_array_append_new(all, ask_one(c, "console"));
    processes_fini(&p);
    return all;
}

/* ---- print ---- */

static void add_row(struct ctl *c, struct table *t, const json_t *s)
{
    const json_t *store = json_object_get(s, "store");
    char uptime[32], bytes[32], disk_free[32];

    table_add(t, PLAIN, "%s", text_of(s, "process"));
    if (!json_is_true(json_object_get(s, "up"))) {
        table_add(t, RED, is_forbidden(c) ? "unknown" : "down");
        for (int i = 0; i < 6; i++)
            table_add(t, PLAIN, "-");
        return;
    }
    table_add(t, GREEN, "up");
    table_add(t, PLAIN, "%s", text_of(s, "version"));
    table_add(t, PLAIN, "%s", text_of(s, "pid"));
    table_add(
        t, PLAIN, "%s",
        human_ms(json_integer_value(json_object_get(s, "uptime_ms")), uptime));
    table_add(t, PLAIN, "%lld", (long long)backlog(s));
    table_add(t, PLAIN, "%s",
              human_bytes(json_integer_value(json_object_get(store, "bytes")),
                          bytes));
    table_add(
        t, PLAIN, "%s",
        human_bytes(json_integer_value(json_object_get(store, "free_bytes")),
                    disk_free));
}

static void print_table(struct ctl *c, const json_t *all)
{
    static const char *const heads[] = {"PROCESS", "STATE",     "VERSION",
                                        "PID",     "UP FOR",    "BACKLOG",
                                        "STORE",   "DISK FREE", NULL};
    struct table t;
    json_t *s;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(all, i, s) add_row(c, &t, s);
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

static bool ends_in(const char *name, size_t n, const char *suffix)
{
    size_t k = strlen(suffix);

    return n > k && memcmp(name + n - k, suffix, k) == 0;
}

/* "grapnel_sequencer_events_taken_total" is "events_taken" beside its name. */
static void print_metric(const char *name, const char *process, int64_t value)
{
    static const char ours[] = "grapnel_", total[] = "_total";
    size_t kind = strcspn(process, "-"), n;
    char bytes[32];

    if (strncmp(name, ours, sizeof ours - 1) == 0)
        name += sizeof ours - 1;
    if (strncmp(name, process, kind) == 0 && name[kind] == '_')
        name += kind + 1;
    n = strlen(name);
    if (ends_in(name, n, total))
        n -= sizeof total - 1;
    if (ends_in(name, n, "_bytes"))
        printf("%.*s %s", (int)(n - strlen("_bytes")), name,
               human_bytes(value, bytes));
    else
        printf("%.*s %lld", (int)n, name, (long long)value);
}

/* What is not 0, that is. */
static void print_metrics(const json_t *s)
{
    const char *process = text_of(s, "process"), *name;
    json_t *value;
    int n = 0;

    json_object_foreach(json_object_get(s, "metrics"), name, value)
    {
        if (!json_integer_value(value))
            continue;
        if (n % METRICS_PER_LINE == 0)
            printf("%s%-14s", n ? ",\n" : "", n ? "" : process);
        else
            printf(", ");
        print_metric(name, process, json_integer_value(value));
        n++;
    }
    if (n)
        printf("\n");
}

/* What a link has been through and an operator should know. */
static void print_troubles(struct ctl *c, const json_t *s)
{
    static const char *const counts[] = {"lost", "set_back", "unprocessable"};
    json_t *link;
    size_t i;

    json_array_foreach(json_object_get(s, "links"), i,
                       link) for (size_t k = 0; k < COUNT_OF(counts); k++)
    {
        json_int_t n = json_integer_value(json_object_get(link, counts[k]));

        if (n)
            printf("%s%s: link %s %s: %lld %s%s\n",
                   colour_on(YELLOW, c->colour), text_of(s, "process"),
                   strcmp(text_of(link, "direction"), "in") ? "to" : "from",
                   text_of(link, "peer"), (long long)n, counts[k],
                   colour_off(YELLOW, c->colour));
    }
}

/* Of an endpoint that nobody tries: what it keeps on disk. */
static void print_waiting(const json_t *trouble)
{
    json_int_t n = json_integer_value(json_object_get(trouble, "waiting"));
    bool more = json_is_true(json_object_get(trouble, "waiting_more"));

    if (n)
        printf("; %lld%s %s on disk, without a limit", (long long)n,
               more ? " or more" : "",
               n == 1 ? "delivery waits" : "deliveries wait");
}

/* Endpoints that are held, disabled, paused or failing. */
static void print_endpoints(struct ctl *c, const json_t *s)
{
    json_int_t more = json_integer_value(json_object_get(s, "troubles_more"));
    json_t *t;
    size_t i;

    json_array_foreach(json_object_get(s, "troubles"), i, t)
    {
        char *why = harmless(text_of(t, "reason"));

        printf("%sEndpoint %s: %s since %s %s%s%s",
               colour_on(YELLOW, c->colour), text_of(t, "endpoint"),
               text_of(t, "state"), time_of(t, "since"), when_zone(),
               *why ? ": " : "", why);
        print_waiting(t);
        printf("%s\n", colour_off(YELLOW, c->colour));
        free(why);
    }
    if (more)
        printf("%sand %lld more endpoints: grapnel endpoints%s\n",
               colour_on(YELLOW, c->colour), (long long)more,
               colour_off(YELLOW, c->colour));
}

/* Of all processes together, per second. -1: none says it yet. */
static double rate(const json_t *all, const char *name)
{
    double sum = -1;
    json_t *s;
    size_t i;

    json_array_foreach(all, i, s)
    {
        const json_t *r = json_object_get(json_object_get(s, "rates"), name);

        if (r)
            sum = (sum < 0 ? 0 : sum) + json_number_value(r);
    }
    return sum;
}

/* The largest value of a series without labels, in ms; -1: none says it. */
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
    int64_t oldest = largest_ms(all, "grapnel_oldest_open_seconds");
    int64_t at_ingress = largest_ms(all,
                                    "grapnel_ingress_backlog_oldest_seconds");

    printf("Rates   ");
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        double r = rate(all, rates[i][1]);

        if (r < 0)
            continue;
        printf("%s %s %.1f/s", comma, rates[i][0], r);
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

static void print_all(struct ctl *c, const json_t *all)
{
    json_t *s;
    size_t i;

    print_table(c, all);
    version_print_mixed(c, all);
    printf("\n");
    print_rates(all);
    json_array_foreach(all, i, s) print_endpoints(c, s);
    printf("\n");
    json_array_foreach(all, i, s) print_metrics(s);
    json_array_foreach(all, i, s) print_troubles(c, s);
}

int run_status(struct ctl *c)
{
    json_t *all = ask_them(c);
    int code;

    if (c->json)
        print_json(json_incref(all));
    else
        print_all(c, all);
    fflush(stdout);
    code = complain_all_away(c, all, "up");
    json_decref(all);
    return code;
}
