/* settings: grapnel.yaml whole, with what it includes and what is built in. Its
 * sections: settings_*.c; kinds of values: settings_types.c; reading by tables:
 * base/conf. */
#include "settings.h"
#include "alert_kinds.h"
#include "glob.h"
#include "settings_types.h"
#include "settings_verify.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_KEYS                                                             \
    {.name = "sources",                                                       \
     .type = &conf_as_maps,                                                   \
     AT(settings, sources),                                                   \
     COUNT(settings, source_count),                                           \
     .section = &settings_source_section,                                     \
     .help = "where webhooks come from"},                                     \
        {.name = "producers",                                                 \
         .type = &conf_as_maps,                                               \
         AT(settings, producers),                                             \
         COUNT(settings, producer_count),                                     \
         .section = &settings_producer_section,                               \
         .help = "who may publish through POST /v1/events"},                  \
        {.name = "endpoints",                                                 \
         .type = &conf_as_maps,                                               \
         AT(settings, endpoints),                                             \
         COUNT(settings, endpoint_count),                                     \
         .section = &settings_endpoint_section,                               \
         .help = "where they are delivered"},                                 \
        {.name = "routes",                                                    \
         .type = &conf_as_maps,                                               \
         AT(settings, routes),                                                \
         COUNT(settings, route_count),                                        \
         .section = &settings_route_section,                                  \
         .help = "more subscriptions"},                                       \
        {.name = "retry_policies",                                            \
         .type = &conf_as_maps,                                               \
         AT(settings, policies),                                              \
         COUNT(settings, policy_count),                                       \
         .section = &settings_policy_section,                                 \
         .help = "when failures are tried again"},                            \
        {.name = "alerts",                                                    \
         .type = &conf_as_maps,                                               \
         AT(settings, alerts),                                                \
         COUNT(settings, alert_count),                                        \
         .section = &settings_alert_section,                                  \
         .help = "when somebody is told"},                                    \
    {                                                                         \
        .name = "notifiers", .type = &conf_as_maps, AT(settings, notifiers),  \
        COUNT(settings, notifier_count),                                      \
        .section = &settings_notifier_section, .help = "who is told, and how" \
    }

static const struct conf_key root_keys_all[] = {
    {.name = "state_dir",
     .type = &conf_as_path,
     AT(settings, state_dir),
     .fallback = "state",
     .help = "where each process keeps its database and its lock"},
    {.name = "run_dir",
     .type = &conf_as_path,
     AT(settings, run_dir),
     .check = wrong_run_dir,
     .fallback = "run",
     .help = "where the sockets between processes lie; made 0700"},
    {.name = "log",
     .type = &conf_as_map,
     .section = &settings_log_section,
     .help = "what is written to standard error"},
    {.name = "shutdown_grace",
     .type = &conf_as_duration,
     AT(settings, shutdown_grace_ms),
     .fallback = "20s",
     .min = 0,
     .max = HOUR_MS,
     .help = "how long what is in flight may take to end after "
             "SIGTERM"},
    {.name = "ingress",
     .type = &conf_as_map,
     .section = &settings_ingress_section,
     .help = "the door for HTTP"},
    {.name = "endpoint_defaults",
     .type = &conf_as_map,
     AT(settings, defaults),
     .section = &settings_defaults_section,
     .help = "what endpoints leave open"},
    LIST_KEYS,
    {.name = "history",
     .type = &conf_as_map,
     .section = &settings_history_section,
     .help = "what was delivered"},
    {.name = "dlq",
     .type = &conf_as_map,
     .section = &settings_dlq_section,
     .help = "what could not be delivered"},
    {.name = "metrics",
     .type = &conf_as_map,
     .section = &settings_metrics_section,
     .help = "numbers for monitors"},
    {.name = "console",
     .type = &conf_as_map,
     .section = &settings_console_section,
     .help = "a reader of all that"},
    {.name = "include",
     .type = &conf_as_texts,
     AT(settings, include),
     .form = "list of paths, with `*`",
     .help = "files that add to the lists sources, producers, endpoints, "
             "routes, retry_policies, alerts and notifiers"},
    {0},
};

static const struct conf_section root_section = {
    .name = "configuration",
    .keys = root_keys_all,
};

#define MAIN_ONLY "belongs into the main file; an included one adds to lists"

static const struct conf_section included_section = {
    .name = "included file",
    .keys = (const struct conf_key[]){LIST_KEYS, {0}},
    .known =
        (const struct conf_known[]){
            {"state_dir", MAIN_ONLY},
            {"run_dir", MAIN_ONLY},
            {"log", MAIN_ONLY},
            {"shutdown_grace", MAIN_ONLY},
            {"ingress", MAIN_ONLY},
            {"endpoint_defaults", MAIN_ONLY},
            {"history", MAIN_ONLY},
            {"dlq", MAIN_ONLY},
            {"metrics", MAIN_ONLY},
            {"console", MAIN_ONLY},
            {"include", MAIN_ONLY},
            {0},
        },
};

/* ---- included files ---- */

/* Hidden files are an editor's, not the user's. */
static bool is_wanted(const char *pattern, const char *name)
{
    return *name != '.' && glob_match(pattern, name);
}

/* One reading of the file: all of it, or a part. */
struct reading {
    struct conf *conf;
    struct settings *settings;
    const struct conf_section *root, *included;
    void (*read)(struct conf *c, const char *path, const char *named_at,
                 const struct conf_section *s, void *target);
};

/* `at` is the text that includes it; `front` of `path` is its folder. */
static void read_match(const struct reading *r, const char *at,
                       const char *path, int front, const char *name)
{
    char *match = gr_printf("%.*s%s", front, path, name);

    r->read(r->conf, match, at, r->included, r->settings);
    free(match);
}

/* A pattern may match nothing. In the order of names, so that errors and
 * lists are the same everywhere. */
static void read_matches(const struct reading *r, const char *at,
                         const char *path, int front)
{
    char *folder = front ? gr_strndup(path, (size_t)front) : gr_strdup(".");
    struct dirent **all = NULL;
    int n = scandir(folder, &all, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (is_wanted(path + front, all[i]->d_name))
            read_match(r, at, path, front, all[i]->d_name);
        free(all[i]);
    }
    free(all);
    free(folder);
}

static bool star_in_folder(const char *written)
{
    const char *star = strchr(written, '*');

    return star && strchr(star, '/');
}

static void read_included(const struct reading *r, const char *at)
{
    char *path = conf_beside(r->conf, at), *slash = strrchr(path, '/');
    int front = slash ? (int)(slash + 1 - path) : 0;

    if (star_in_folder(at))
        conf_error_at(r->conf, at,
                      "* may stand in the file's name only, not in a "
                      "folder's");
    else if (strchr(path + front, '*'))
        read_matches(r, at, path, front);
    else
        r->read(r->conf, path, at, r->included, r->settings);
    free(path);
}

/* ---- loading ---- */

static char backfill_method[] = "POST";

static const struct retry_policy *policy_named(const struct settings *s,
                                               const char *name)
{
    for (size_t i = 0; i < s->policy_count; i++)
        if (strcmp(s->policies[i].name, name) == 0)
            return &s->policies[i];
    return NULL;
}

/* As an endpoint of our own, with the pace of the defaults. */
static void add_backfill(struct settings *s, const struct source *source)
{
    const struct order *o = &source->order;
    struct endpoint_settings *e;

    s->backfills = gr_realloc(s->backfills,
                              (s->backfill_count + 1) * sizeof *s->backfills);
    e = &s->backfills[s->backfill_count++];
    *e = (struct endpoint_settings){
        .name = gr_printf(BACKFILL_PREFIX "%s", source->name),
        .url = o->backfill,
        .signing_secrets = o->signing_secrets,
        .method = backfill_method,
        .allow_private = o->allow_private,
        .allow_cidrs = o->allow_cidrs,
        .allow_cidr_count = o->allow_cidr_count,
        .enabled = true,
        .internal = true,
        .timeout_ms = s->defaults.timeout_ms,
        .connect_timeout_ms = s->defaults.connect_timeout_ms,
        .max_in_flight = s->defaults.max_in_flight,
        .retry_policy = s->defaults.retry_policy,
        .policy = s->defaults.policy,
    };
}

/* Only when all is right: no pointer into the lists exists before. */
static void resolve(struct settings *s)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint_settings *e = &s->endpoints[i];

        if (!e->retry_policy)
            e->retry_policy = gr_strdup(s->defaults.retry_policy);
        e->policy = policy_named(s, e->retry_policy);
    }
    if (s->defaults.retry_policy)
        s->defaults.policy = policy_named(s, s->defaults.retry_policy);
    settings_hash_tokens(s->producers, s->producer_count);
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].order.backfill)
            add_backfill(s, &s->sources[i]);
}

static void read_files(const struct reading *r, const char *path)
{
    r->read(r->conf, path, NULL, r->root, r->settings);
    for (size_t i = 0; i < r->settings->include.count; i++)
        read_included(r, r->settings->include.items[i]);
}

/* A declared policy hides the built-in one of its name. */
static void add_policies(struct conf *c, struct settings *s)
{
    size_t declared = s->policy_count;

    conf_read_text(c, "built in", settings_built_in_policies, &included_section,
                   s);
    settings_check_policies(c, s, declared);
    settings_drop_hidden(&settings_policy_section, s->policies, declared,
                         &s->policy_count);
}

static void read_all(struct conf *c, struct settings *s, const char *path)
{
    const struct reading all = {c, s, &root_section, &included_section,
                                conf_read_file};
    size_t alerts;

    read_files(&all, path);
    add_policies(c, s);
    alerts = s->alert_count;
    conf_read_text(c, "built in", settings_built_in_alerts, &included_section,
                   s);
    settings_check_across(c, s, alerts);
    settings_warn(c, s);
    settings_drop_hidden(&settings_alert_section, s->alerts, alerts,
                         &s->alert_count);
}

static void copy_list(const struct text_list *from, struct text_list *to)
{
    for (size_t i = 0; i < from->count; i++)
        text_list_add(to, from->items[i]);
}

/* Errors name the whole path, wherever a program was started, and the same one
 * in all programs. A file that is missing is named as it would be found. */
static char *whole_path(const char *path)
{
    char *whole = realpath(path, NULL), *folder;

    if (whole || *path == '/')
        return whole ? whole : gr_strdup(path);
    folder = getcwd(NULL, 0);
    whole = folder ? gr_printf("%s/%s", folder, path) : gr_strdup(path);
    free(folder);
    return whole;
}

/* `s` is freed when there were errors. */
static struct settings *loaded(struct conf *c, struct settings *s,
                               const char *path, struct buf *errors)
{
    copy_list(conf_variables(c), &s->variables);
    conf_warnings(c, &s->warnings);
    if (!conf_close(c, errors)) {
        settings_put_path_hint(path, errors);
        settings_free(s);
        return NULL;
    }
    resolve(s);
    return s;
}

struct settings *settings_load_here(const char *path, struct buf *errors,
                                    struct text_list *unset)
{
    struct settings *s = gr_alloc(sizeof *s);
    struct conf *c = conf_open(s);

    s->path = whole_path(path);
    read_all(c, s, s->path);
    copy_list(conf_unset_variables(c), unset);
    return loaded(c, s, path, errors);
}

struct settings *settings_load(const char *path, struct buf *errors)
{
    struct text_list unset = {0};
    struct settings *s = settings_load_here(path, errors, &unset);

    text_list_fini(&unset);
    return s;
}

static bool is_among(const char *const *words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

/* Those of the section's keys that are meant, into `keys`. */
static struct conf_section part_of(const struct conf_section *whole,
                                   const char *const *names,
                                   struct conf_key *keys)
{
    struct conf_section part = {
        .name = whole->name, .keys = keys, .part = true};

    for (const struct conf_key *k = whole->keys; k->name; k++)
        if (is_among(names, k->name))
            *keys++ = *k;
    *keys = (struct conf_key){0};
    return part;
}

struct settings *settings_load_part(const char *path, const char *const *keys,
                                    struct buf *errors)
{
    struct conf_key root_keys[COUNT_OF(root_keys_all)],
        included_keys[COUNT_OF(root_keys_all)];
    const struct conf_section root = part_of(&root_section, keys, root_keys),
                              included = part_of(&included_section, keys,
                                                 included_keys);
    struct settings *s = gr_alloc(sizeof *s);
    struct conf *c = conf_open(s);
    const struct reading part = {c, s, &root, &included, conf_read_part};

    s->path = whole_path(path);
    read_files(&part, s->path);
    if (is_among(keys, "retry_policies"))
        add_policies(c, s);
    return loaded(c, s, path, errors);
}

/* What the profile gave, and what no key of a table owns. */
static void free_source_rest(struct source *s)
{
    expr_fini(&s->action);
    text_list_fini(&s->forward_headers);
    settings_forget_keys(s);
}

void settings_free(struct settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->source_count; i++)
        free_source_rest(&s->sources[i]);
    for (size_t i = 0; i < s->producer_count; i++)
        free(s->producers[i].token_hashes);
    for (size_t i = 0; i < s->backfill_count; i++)
        free(s->backfills[i].name);
    free(s->backfills);
    text_list_fini(&s->variables);
    text_list_fini(&s->warnings);
    conf_fini(&root_section, s);
    free(s->path);
    free(s);
}

/* ---- what a reload changes ---- */

/* Keys that a process reads only at its start; `kind` NULL: every process. */
static const struct {
    const char *path, *kind;
} start_keys[] = {
    {"state_dir", NULL},
    {"run_dir", NULL},
    {"metrics.interval", NULL},
    {"metrics.publish", "console"},
    {"console.listen", "console"},
    {"ingress.listen", "ingress"},
    {"ingress.max_connections", "ingress"},
};

/* false: a change of this key does not concern such a process. */
static bool concerns(const char *path, const char *kind, bool *at_start)
{
    *at_start = false;
    for (size_t i = 0; i < COUNT_OF(start_keys); i++)
        if (strcmp(start_keys[i].path, path) == 0) {
            *at_start = true;
            return !start_keys[i].kind || strcmp(start_keys[i].kind, kind) == 0;
        }
    return true;
}

void settings_compare(const struct settings *running,
                      const struct settings *fresh, const char *kind,
                      struct text_list *changed, struct text_list *restart)
{
    struct text_list all = {0};

    conf_diff(&root_section, running, fresh, &all);
    for (size_t i = 0; i < all.count; i++) {
        bool at_start;

        if (concerns(all.items[i], kind, &at_start))
            text_list_add(at_start ? restart : changed, all.items[i]);
    }
    text_list_fini(&all);
}

static void swap_text(char **a, char **b)
{
    char *was = *a;

    *a = *b;
    *b = was;
}

void settings_keep_start_values(struct settings *running,
                                struct settings *fresh)
{
    swap_text(&running->state_dir, &fresh->state_dir);
    swap_text(&running->run_dir, &fresh->run_dir);
    fresh->metrics_interval_ms = running->metrics_interval_ms;
    swap_text(&running->metrics_publish, &fresh->metrics_publish);
    swap_text(&running->console.host, &fresh->console.host);
    fresh->console.port = running->console.port;
    swap_text(&running->ingress.host, &fresh->ingress.host);
    fresh->ingress.port = running->ingress.port;
    fresh->ingress.max_connections = running->ingress.max_connections;
}

const struct source *settings_source(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < s->source_count; i++)
        if (s->sources[i].name && strcmp(s->sources[i].name, name) == 0)
            return &s->sources[i];
    return NULL;
}

const struct producer *settings_producer(const struct settings *s,
                                         const char *name)
{
    for (size_t i = 0; i < s->producer_count; i++)
        if (s->producers[i].name && strcmp(s->producers[i].name, name) == 0)
            return &s->producers[i];
    return NULL;
}

const struct endpoint_settings *settings_endpoint(const struct settings *s,
                                                  const char *name)
{
    for (size_t i = 0; i < s->endpoint_count; i++)
        if (strcmp(s->endpoints[i].name, name) == 0)
            return &s->endpoints[i];
    for (size_t i = 0; i < s->backfill_count; i++)
        if (strcmp(s->backfills[i].name, name) == 0)
            return &s->backfills[i];
    return NULL;
}

/* ---- printing ---- */

void settings_print(const struct settings *s, struct buf *out)
{
    buf_printf(out, "# In effect, from %s\n", s->path);
    conf_print(&root_section, s, out, 0, true);
}

static void document_alerts(struct buf *out)
{
    static const char *const units[] = {
        [ALERT_UNIT_NONE] = "",
        [ALERT_UNIT_NUMBER] = "number",
        [ALERT_UNIT_PART] = "part, `5%`",
        [ALERT_UNIT_SECONDS] = "duration, `10s`",
        [ALERT_UNIT_BYTES] = "size, `1GiB`"};

    buf_puts(out, "\n## What an alert may be about\n\n"
                  "| `when` | threshold | each | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < ALERT_WHEN_COUNT; i++)
        buf_printf(out, "| `%s` | %s | %s | %s |\n", alert_kinds[i].word,
                   units[alert_kinds[i].unit], alert_kinds[i].per,
                   alert_kinds[i].help);
    buf_puts(out, "\n## Built-in alerts\n\n"
                  "Judged without being declared; a declared one of the same "
                  "name wins.\n\n```yaml\n");
    buf_puts(out, settings_built_in_alerts);
    buf_puts(out, "```\n");
}

static const char preamble[] =
    "# Configuration\n"
    "\n"
    "<!-- Written by settings_document() from the tables that read the file "
    "(proto/settings.c); a test compares. -->\n"
    "\n"
    "`grapnel.yaml` is read by every process. Every error is printed "
    "in one run, as\n"
    "`file:line:column: key.path: what is wrong` with the file's whole path, "
    "and no process starts\n"
    "with a configuration that has one.\n"
    "A program reads the file that `-c` names; without it `$GRAPNEL_CONFIG`; "
    "without that\n"
    "`/etc/grapnel/grapnel.yaml`. A `grapnel.yaml` in the current folder is "
    "not read by itself.\n"
    "`grapnel check` also warns of what is allowed and likely a mistake, at "
    "its line, and so do\n"
    "`check --running` and `reload`: an endpoint with a private address and no "
    "`allow_private`; an\n"
    "ordered endpoint whose retry policy lets one failing event hold back the "
    "others for an hour or\n"
    "more; a subscription that no source or producer can match; a source or "
    "producer, or a type of\n"
    "a producer, to which no endpoint is subscribed; a `log.errors` that "
    "cannot be written; a\n"
    "secret's file that every user may read or write (a warning, as an error "
    "would stop what works).\n"
    "\n"
    "- A secret is best written as `file:path`: it is read from that file, "
    "without its last newline,\n"
    "  and read again at each reload. Make the file readable only for the user "
    "that runs Grapnel.\n"
    "- `${VAR}` in a text is taken from the environment (unset is an error); "
    "`$$` is a dollar. A\n"
    "  process keeps the environment of its start, so a new or changed "
    "variable needs a restart.\n"
    "  Quote it inside of `[…]` and `{…}`: `[\"${VAR}\"]`.\n"
    "- Durations are `250ms 10s 5m 24h 7d`, sizes `512B 64KiB 1MiB 50GiB`.\n"
    "- Paths are relative to the file in which they stand.\n"
    "- Where a list of texts is meant, one text will do.\n"
    "- Names are `[a-z0-9][a-z0-9_-]{0,62}`. In a pattern `*` stands for any "
    "text.\n"
    "- Unquoted, YAML takes `yes`, `08`, `10:30` and the like for something "
    "else than a text; where\n"
    "  a text is meant that is an error: quote it.\n"
    "- Field expressions say where in a request something is found: "
    "`header:NAME` (any letter case),\n"
    "  `json:/pointer` (RFC 6901), `form:NAME`, `query:NAME`, `const:TEXT`, "
    "and the words `source\n"
    "  provider id type workspace body_sha256`. Of a list, the first that can "
    "be had counts. Where a\n"
    "  body is a form with a field `payload`, `json:` looks in there.\n"
    "- What each provider's profile says: [PROVIDERS.md](PROVIDERS.md).\n"
    "\n";

void settings_document(struct buf *out)
{
    buf_puts(out, preamble);
    conf_document(&root_section, "", out);
    buf_puts(out, "\n## Built-in retry policies\n\n"
                  "Usable without being declared; a declared one of the same "
                  "name wins.\n\n```yaml\n");
    buf_puts(out, settings_built_in_policies);
    buf_puts(out, "```\n");
    document_alerts(out);
}
