/* status_command: `grapnel replicate status`: who has each store, who could take over, and what would be lost now. It reads the replication database only, so it
 * works on each host, whatever runs. */
#include "engine_check.h"
#include "json_text.h"
#include "replicated.h"
#include "table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct overview {
    const struct replicated *r;
    char weak[ENGINE_WHY_BYTES]; /* the first finding that can lose data */
    int64_t silent_ms; /* a standby writes its row twelve times as often */
    json_t *stores, *findings, *not_begun; /* lists */
    bool good;
};

static bool is_released(const struct owner *o)
{
    static const uint8_t nobody[HOLDER_BYTES];

    return memcmp(o->holder, nobody, HOLDER_BYTES) == 0;
}

/* ---- judging ---- */

enum { LOST_BYTES = 300 + ENGINE_WHY_BYTES };

/* What would be lost with the active's host, and *safe: nothing, and somebody would take over. */
static void judge(const struct overview *v, const struct engine_store *s,
                  char out[LOST_BYTES], bool *safe)
{
    int ready = 0, running = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct engine_node *n = &s->nodes[i];

        if (strcmp(n->host, s->owner.host) == 0 && !is_released(&s->owner))
            continue;
        running += n->seen_ms <= v->silent_ms;
        ready += n->seen_ms <= v->silent_ms && n->ready;
    }
    *safe = ready > 0 && !*v->weak;
    if (s->snapshot_n < 0 && !ready)
        snprintf(out, LOST_BYTES,
                 "everything, unless the host comes back: there is no snapshot "
                 "yet, and no standby is ready");
    else if (*v->weak)
        snprintf(out, LOST_BYTES,
                 "what the database has acknowledged and could lose: %s",
                 v->weak);
    else if (ready)
        snprintf(out, LOST_BYTES, "nothing: %d standby%s can take over", ready,
                 ready == 1 ? "" : "s");
    else
        snprintf(out, LOST_BYTES,
                 "nothing is lost, but nobody takes over until a standby is "
                 "ready: %s",
                 running ? "none is" : "none runs");
}

static json_t *node_json(const struct overview *v, const struct engine_store *s,
                         const struct engine_node *n)
{
    bool active = strcmp(n->host, s->owner.host) == 0 &&
                  !is_released(&s->owner);
    const char *role = active                      ? "active"
                       : n->seen_ms > v->silent_ms ? "silent"
                                                   : "standby";
    int64_t behind = s->owner.at.n - n->n;

    return json_pack("{s:s,s:s,s:b,s:o,s:I,s:I,s:I,s:o}", "host", n->host,
                     "role", role, "ready", (int)(active || n->ready), "why",
                     active || n->ready ? json_null() : json_text_of(n->why),
                     "turn", (json_int_t)(active ? s->owner.at.n : n->n),
                     "behind", (json_int_t)(active || behind < 0 ? 0 : behind),
                     "seen_ms", (json_int_t)n->seen_ms, "peers",
                     strcmp(role, "standby") == 0 ? json_integer(n->peers)
                                                  : json_null());
}

static void add_store(struct overview *v, const struct engine_store *s)
{
    json_t *nodes = json_array(), *row;
    bool safe, held = !is_released(&s->owner);
    char lost[LOST_BYTES];

    for (size_t i = 0; i < s->node_count; i++)
        json_array_append_new(nodes, node_json(v, s, &s->nodes[i]));
    if (held && !replicated_node(s, s->owner.host))
        json_array_append_new(
            nodes, json_pack("{s:s,s:s,s:b,s:n,s:I,s:i,s:n,s:n}", "host",
                             s->owner.host, "role", "active", "ready", 1, "why",
                             "turn", (json_int_t)s->owner.at.n, "behind", 0,
                             "seen_ms", "peers"));
    judge(v, s, lost, &safe);
    v->good = v->good && safe && held;
    row = json_pack(
        "{s:s,s:o,s:I,s:I,s:o,s:I,s:b,s:s,s:o}", "process", s->process,
        "active", held ? json_text_of(s->owner.host) : json_null(), "epoch",
        (json_int_t)s->owner.epoch, "turn", (json_int_t)s->owner.at.n,
        "snapshot_turn",
        s->snapshot_n < 0 ? json_null() : json_integer(s->snapshot_n),
        "log_bytes", (json_int_t)s->log_bytes, "safe", (int)safe, "lost_now",
        lost, "hosts", nodes);
    json_array_append_new(v->stores, row);
}

static void found(void *self, enum engine_finding_kind kind, const char *what,
                  const char *fix)
{
    struct overview *v = self;
    bool weak = kind == ENGINE_WEAK;

    json_array_append_new(v->findings,
                          json_pack("{s:b,s:s,s:s}", "weak", (int)weak, "what",
                                    what, "fix", fix));
    v->good = v->good && !weak;
    if (weak && !*v->weak)
        snprintf(v->weak, sizeof v->weak, "%s", what);
}

static void find_not_begun(struct overview *v,
                           const struct engine_store *stores, size_t count)
{
    struct string_list expected = {0};

    replicated_expected(v->r, &expected);
    for (size_t i = 0; i < expected.count; i++)
        if (!replicated_find(stores, count, expected.items[i])) {
            json_array_append_new(v->not_begun,
                                  json_text_of(expected.items[i]));
            v->good = false;
        }
    string_list_fini(&expected);
}

static int read_all(struct overview *v)
{
    const struct replicated *r = v->r;
    const struct engine_settings settings = {
        .database = r->c->settings->replicate.database,
        .process = "",
        .host = r->host,
        .hold_ms = r->hold_ms,
        .accept_weak = true};
    struct engine *e = replicated_engine(r, "");
    char why[ENGINE_WHY_BYTES];
    size_t count;
    const struct engine_store *stores = replicated_overview(e, &count);
    int code = stores ? 0 : EXIT_UNAVAILABLE;

    if (!code && engine_check(&settings, found, v, why) != GR_OK)
        code = complain(EXIT_UNAVAILABLE, "the replication database: %s", why);
    for (size_t i = 0; i < count; i++)
        add_store(v, &stores[i]);
    if (!code)
        find_not_begun(v, stores, count);
    engine_postgres.close(e);
    return code;
}

/* ---- printing ---- */

static void print_hosts(const struct ctl *c, const json_t *stores)
{
    static const char *const heads[] = {
        "PROCESS", "HOST", "ROLE", "TURN", "BEHIND", "SEEN", "PEERS", "", NULL};
    struct table t;
    json_t *s, *n;
    size_t i, k;
    char text[32];

    table_init(&t, heads);
    json_array_foreach(stores, i, s)
    {
        if (!json_array_size(json_object_get(s, "hosts"))) {
            table_add(&t, BOLD, "%s", text_of(s, "process"));
            for (k = 1; k < 8; k++)
                table_add(&t, PLAIN, "%s", k < 6 ? "-" : "");
        }
        json_array_foreach(json_object_get(s, "hosts"), k, n)
        {
            const char *role = text_of(n, "role");
            bool ready = json_is_true(json_object_get(n, "ready")),
                 active = strcmp(role, "active") == 0,
                 silent = strcmp(role, "silent") == 0;

            table_add(&t, BOLD, "%s", k ? "" : text_of(s, "process"));
            table_add(&t, PLAIN, "%s", text_of(n, "host"));
            table_add(&t,
                      active || ready ? GREEN
                      : silent        ? DIM
                                      : YELLOW,
                      "%s%s", role,
                      active || silent ? ""
                      : ready          ? ", ready"
                                       : ", not ready");
            table_add(&t, PLAIN, "%s", text_of(n, "turn"));
            table_add(&t, PLAIN, "%s", text_of(n, "behind"));
            table_add(&t, PLAIN, "%s",
                      active ? "" : human_ms(integer_of(n, "seen_ms"), text));
            table_add(&t, PLAIN, "%s",
                      active || silent ? "" : text_of(n, "peers"));
            table_add(&t, DIM, "%s", silent ? "" : text_of(n, "why"));
        }
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

static void print_stores(const struct ctl *c, const json_t *stores)
{
    json_t *s;
    size_t i;

    printf("\nIf the active's host were lost now:\n");
    json_array_foreach(stores, i, s)
    {
        bool safe = json_is_true(json_object_get(s, "safe"));
        enum colour colour = safe ? GREEN : YELLOW;
        char text[32];

        if (json_is_null(json_object_get(s, "active"))) {
            printf("  %s: no process is active: %s\n", text_of(s, "process"),
                   integer_of(s, "epoch")
                       ? "start one that is ready, or has the newest file"
                       : "it begins when it is started");
            continue;
        }
        printf("  %s: %s%s%s", text_of(s, "process"),
               colour_on(colour, c->colour), text_of(s, "lost_now"),
               colour_off(colour, c->colour));
        if (!json_is_null(json_object_get(s, "snapshot_turn")))
            printf(" (snapshot at turn %s, and %s of log after it)",
                   text_of(s, "snapshot_turn"),
                   human_bytes(integer_of(s, "log_bytes"), text));
        printf("\n");
    }
}

static void print_not_begun(const struct ctl *c, const json_t *not_begun)
{
    json_t *name;
    size_t i;

    json_array_foreach(not_begun, i, name)
    {
        const char *text = json_string_value(name);

        printf("  %s: %sit is not replicated%s: `grapnel replicate begin %s` "
               "on its host begins it\n",
               text, colour_on(YELLOW, c->colour),
               colour_off(YELLOW, c->colour), text);
    }
}

static void print_findings(const struct ctl *c, const json_t *findings)
{
    json_t *f;
    size_t i;

    json_array_foreach(findings, i, f)
    {
        bool weak = json_is_true(json_object_get(f, "weak"));
        const char *fix = text_of(f, "fix");

        printf("%s%s%s%s%s\n", i ? "" : "\n",
               colour_on(weak ? RED : YELLOW, c->colour), text_of(f, "what"),
               colour_off(weak ? RED : YELLOW, c->colour), *fix ? ":" : "");
        if (*fix)
            printf("  %s\n", fix);
    }
}

int run_replicate_status(struct ctl *c)
{
    struct replicated r;
    struct overview v = {.good = true};
    int code;

    replicated_open(&r, c);
    v.r = &r;
    v.silent_ms = c->settings->replicate.takeover_after_ms;
    v.stores = json_array();
    v.findings = json_array();
    v.not_begun = json_array();
    code = read_all(&v);
    if (!code && c->json)
        print_json(json_pack("{s:s,s:O,s:O,s:O}", "host", r.host, "stores",
                             v.stores, "not_begun", v.not_begun, "findings",
                             v.findings));
    else if (!code && !json_array_size(v.stores))
        printf("Nothing is replicated yet: `grapnel replicate begin` begins "
               "it.\n");
    else if (!code) {
        print_hosts(c, v.stores);
        print_stores(c, v.stores);
        print_not_begun(c, v.not_begun);
        print_findings(c, v.findings);
    }
    if (!code && !v.good)
        code = EXIT_REFUSED;
    json_decref(v.stores);
    json_decref(v.not_begun);
    json_decref(v.findings);
    return code;
}
