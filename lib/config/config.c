/* config: reads grapnel.yaml with the files that it includes and the built-in parts. Its
 * sections are in settings_*.c, the kinds of values in settings_types.c, and the reading by
 * tables is lib/yaml/conf. */
#include "config.h"
#include "alert_kinds.h"
#include "glob.h"
#include "settings.h"
#include "settings_types.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which file ---- */

static const char default_path[] = "/etc/grapnel/grapnel.yaml",
                  local_name[] = "grapnel.yaml";

const char *settings_path(const char *named)
{
    const char *set = getenv("GRAPNEL_CONFIG");

    if (named)
        return named;
    return set && *set ? set : default_path;
}

/* Compares the pointer, so a path that the user typed is not recognised as the default one. */
static void put_path_hint(const char *path, struct buf *out)
{
    char *folder;

    if (path != default_path || access(path, R_OK) == 0)
        return;
    buf_puts(out, "There is no configuration: neither -c nor $GRAPNEL_CONFIG "
                  "names a file, and /etc/grapnel/grapnel.yaml cannot be read");
    folder = access(local_name, F_OK) == 0 ? getcwd(NULL, 0) : NULL;
    if (folder)
        buf_printf(out,
                   ". The %s in this folder is read only when it is named: use "
                   "-c %s, or export GRAPNEL_CONFIG=%s/%s\n",
                   local_name, local_name, folder, local_name);
    else
        buf_puts(out, ": use -c FILE, or export GRAPNEL_CONFIG=FILE\n");
    free(folder);
}

/* ---- the file as a whole ---- */

/* The keys that an included file may have, too. */
#define LIST_KEYS                                                              \
    LIST(settings, sources, source_count, "sources", &settings_source_section, \
         "the senders of webhooks, each with its own URL and secret"),         \
        LIST(settings, producers, producer_count, "producers",                 \
             &settings_producer_section,                                       \
             "your own services that may publish through `POST "               \
             "/v1/events`"),                                                   \
        LIST(settings, endpoints, endpoint_count, "endpoints",                 \
             &settings_endpoint_section,                                       \
             "the services that events are delivered to"),                     \
        LIST(settings, routes, route_count, "routes", &settings_route_section, \
             "subscriptions that several endpoints share"),                    \
        LIST(settings, policies, policy_count, "retry_policies",               \
             &settings_policy_section,                                         \
             "when failed attempts are retried, and when Grapnel stops "       \
             "retrying"),                                                      \
        LIST(settings, alerts, alert_count, "alerts", &settings_alert_section, \
             "the rules that notify you of problems"),                         \
        LIST(settings, notifiers, notifier_count, "notifiers",                 \
             &settings_notifier_section,                                       \
             "how alerts are sent: webhook, e-mail or command")

static const struct conf_key root_keys_all[] = {
    KEY(path, settings, state_dir, "state_dir", "state",
        "the folder of each process's database and lock file; on a local disk"),
    KEY(path, settings, run_dir, "run_dir", "run",
        "the folder of the sockets between processes; Grapnel creates it with "
        "mode 0700",
        .check = wrong_run_dir),
    SECTION("log", &settings_log_section, "the log on standard error"),
    KEY(duration, settings, shutdown_grace_ms, "shutdown_grace", "20s",
        "how long a process waits after SIGTERM for requests and attempts in "
        "progress",
        .min = 0, .max = HOUR_MS),
    KEY(strings, settings, secrets_keys, "secrets_key", NULL,
        "the key that encrypts the secrets of endpoints made at run time in "
        "the database; each is base64 of 32 bytes: `openssl rand -base64 32`. "
        "With several, the first encrypts and the others only decrypt (for "
        "rotation). A backup does not have it: keep a copy elsewhere",
        .check = wrong_secrets_key, .flags = CONF_SECRET | CONF_FILLED,
        .form = "secret, such as `file:path`, or list of secrets"),
    SECTION("ingress", &settings_ingress_section,
            "the process that receives webhooks over HTTP"),
    KEY(map, settings, defaults, "endpoint_defaults", NULL,
        "defaults for keys that an endpoint does not set",
        .section = &settings_defaults_section),
    LIST_KEYS,
    LIST(settings, relays, relay_count, "outbox", &settings_relay_section,
         "tables of your applications whose rows become events"),
    SECTION("history", &settings_history_section,
            "how long delivered events are kept"),
    SECTION("dlq", &settings_dlq_section,
            "the dead-letter queue: deliveries that failed for good"),
    SECTION("temporary_endpoints", &settings_temporary_section,
            "the endpoints of `grapnel listen`"),
    SECTION("metrics", &settings_metrics_section,
            "the metrics that each process publishes"),
    SECTION("console", &settings_console_section,
            "the process that serves metrics to Prometheus and the "
            "management API, and sends alerts"),
    SECTION("audit", &settings_audit_section,
            "the record of every change, and its hash chain",
            .flags = CONF_OPTIONAL),
    SECTION("cluster", &settings_cluster_section, "processes on several hosts"),
    SECTION("replicate", &settings_replicate_section,
            "copies of the databases on other hosts, one of which takes over "
            "when a host is lost"),
    SECTION("telemetry", &settings_telemetry_section,
            "the export of traces and metrics to OpenTelemetry"),
    SECTION("tenants", &settings_tenants_section,
            "limits of the tokens of workspaces"),
    KEY(strings, settings, include, "include", NULL,
        "more files. They may contain only sources, producers, endpoints, "
        "routes, retry_policies, alerts and notifiers, which are added to the "
        "lists of this file",
        .form = "list of paths, with `*`"),
    {0},
};

const struct conf_section settings_root_section = {
    .name = "configuration",
    .keys = root_keys_all,
};

#define MAIN_ONLY                                                        \
    "is allowed only in the main file; an included file contains lists " \
    "(sources, endpoints …)"

static const struct conf_key list_keys[] = {
    LIST_KEYS,
    {0},
};

static const struct conf_section included_section = {
    .name = "included file",
    .keys = list_keys,
    .known =
        (const struct conf_known[]){
            {"state_dir", MAIN_ONLY},
            {"run_dir", MAIN_ONLY},
            {"log", MAIN_ONLY},
            {"shutdown_grace", MAIN_ONLY},
            {"secrets_key", MAIN_ONLY},
            {"ingress", MAIN_ONLY},
            {"endpoint_defaults", MAIN_ONLY},
            {"outbox", MAIN_ONLY},
            {"history", MAIN_ONLY},
            {"dlq", MAIN_ONLY},
            {"metrics", MAIN_ONLY},
            {"console", MAIN_ONLY},
            {"audit", MAIN_ONLY},
            {"cluster", MAIN_ONLY},
            {"replicate", MAIN_ONLY},
            {"include", MAIN_ONLY},
            {0},
        },
};

/* ---- included files ---- */

/* One reading of the file: all keys, or some. */
struct reading {
    struct conf *conf;
    struct settings *settings;
    const struct conf_section *root, *included;
    void (*read)(struct conf *c, const char *path, const char *named_at,
                 const struct conf_section *s, void *target);
};

/* `at` is the text that includes the files; `front` is the length of the folder in `path`.
 * A pattern may match no file. Files are read in the order of their names, so that errors
 * and lists are the same everywhere. Hidden files are those of an editor, not of the user. */
static void read_matches(const struct reading *r, const char *at,
                         const char *path, int front)
{
    char *folder = front ? gr_strndup(path, (size_t)front) : gr_strdup(".");
    struct dirent **all = NULL;
    int n = scandir(folder, &all, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        const char *name = all[i]->d_name;

        if (*name != '.' && glob_match(path + front, name)) {
            char *match = gr_printf("%.*s%s", front, path, name);

            r->read(r->conf, match, at, r->included, r->settings);
            free(match);
        }
        free(all[i]);
    }
    free(all);
    free(folder);
}

static void read_included(const struct reading *r, const char *at)
{
    char *path = conf_beside(r->conf, at), *slash = strrchr(path, '/');
    const char *star = strchr(at, '*');
    int front = slash ? (int)(slash + 1 - path) : 0;

    if (star && strchr(star, '/'))
        conf_error_at(r->conf, at,
                      "* is allowed only in the name of the file, not in the "
                      "name of a folder");
    else if (strchr(path + front, '*'))
        read_matches(r, at, path, front);
    else
        r->read(r->conf, path, at, r->included, r->settings);
    free(path);
}

/* ---- loading ---- */

static char backfill_method[] = "POST";

/* Adds the backfill as a hidden endpoint, with the rate of the defaults. */
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
        .enabled = true,
        .internal = true,
        .timeout_ms = s->defaults.timeout_ms,
        .connect_timeout_ms = s->defaults.connect_timeout_ms,
        .max_in_flight = s->defaults.max_in_flight,
        .retry_policy = s->defaults.retry_policy,
        .policy = s->defaults.policy,
    };
}

/* Only when there are no errors: before that, no pointer into the lists exists. */
static void resolve(struct settings *s)
{
    for (size_t i = 0; i < s->endpoint_count; i++) {
        struct endpoint_settings *e = &s->endpoints[i];

        if (!e->retry_policy)
            e->retry_policy = gr_strdup(s->defaults.retry_policy);
        e->policy = settings_policy(s, e->retry_policy);
    }
    if (s->defaults.retry_policy)
        s->defaults.policy = settings_policy(s, s->defaults.retry_policy);
    settings_hash_tokens(s->producers, s->producer_count);
    for (size_t i = 0; i < s->relay_count; i++) {
        struct relay *r = &s->relays[i];

        r->producer = (struct producer){.name = r->name,
                                        .may_name_urls = r->may_name_urls};
        r->delete_after_ms = settings_delete_after_ms(r);
    }
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

/* A declared policy replaces the built-in one of its name. */
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
    const struct reading all = {c, s, &settings_root_section, &included_section,
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

static void copy_list(const struct string_list *from, struct string_list *to)
{
    for (size_t i = 0; i < from->count; i++)
        string_list_add(to, from->items[i]);
}

/* Errors name the absolute path, wherever a program was started. A missing file is named by
 * the path at which it was expected. */
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

/* `s` was freed if there were errors. */
static struct settings *loaded(struct conf *c, struct settings *s,
                               const char *path, struct buf *errors)
{
    copy_list(conf_variables(c), &s->variables);
    conf_warnings(c, &s->warnings);
    if (!conf_close(c, errors)) {
        put_path_hint(path, errors);
        settings_free(s);
        return NULL;
    }
    resolve(s);
    return s;
}

struct settings *settings_load_here(const char *path, struct buf *errors,
                                    struct string_list *unset)
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
    struct string_list unset = {0};
    struct settings *s = settings_load_here(path, errors, &unset);

    string_list_fini(&unset);
    return s;
}

static bool is_among(const char *const *words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

/* Selects those of the section's keys that are wanted, into `keys`. */
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
    const struct conf_section root = part_of(&settings_root_section, keys,
                                             root_keys),
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

void settings_free(struct settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->source_count; i++) {
        /* The profile filled these in; they belong to no key of a table. */
        expr_fini(&s->sources[i].action);
        string_list_fini(&s->sources[i].forward_headers);
        settings_forget_keys(&s->sources[i]);
    }
    for (size_t i = 0; i < s->producer_count; i++)
        free(s->producers[i].token_hashes);
    for (size_t i = 0; i < s->backfill_count; i++)
        free(s->backfills[i].name);
    free(s->backfills);
    string_list_fini(&s->variables);
    string_list_fini(&s->warnings);
    conf_fini(&settings_root_section, s);
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
    {"cluster.keys", NULL},
    {"cluster.host", NULL},
    {"audit.key", NULL},
    {"audit.old_keys", NULL},
    {"replicate.database", NULL},
    {"replicate.key", NULL},
    {"replicate.takeover_after", NULL},
    {"replicate.accept_weak_durability", NULL},
    {"ingress.listen", "ingress"},
    {"ingress.max_connections", "ingress"},
};

/* false: a change of this key does not affect such a process. */
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

/* A certificate can be renewed at any time; HTTPS begins or ends at a start. */
static bool switches_tls(const struct settings *a, const struct settings *b)
{
    return !a->console.tls.key != !b->console.tls.key;
}

void settings_compare(const struct settings *running,
                      const struct settings *fresh, const char *kind,
                      struct string_list *changed, struct string_list *restart)
{
    bool tls_switched = switches_tls(running, fresh);
    struct string_list all = {0};

    conf_diff(&settings_root_section, running, fresh, &all);
    for (size_t i = 0; i < all.count; i++) {
        bool at_start;

        if (!concerns(all.items[i], kind, &at_start))
            continue;
        if (tls_switched && strncmp(all.items[i], "console.tls", 11) == 0) {
            if (strcmp(kind, "console") != 0)
                continue;
            at_start = true;
        }
        string_list_add(at_start ? restart : changed, all.items[i]);
    }
    string_list_fini(&all);
}

static void swap_text(char **a, char **b)
{
    char *was = *a;

    *a = *b;
    *b = was;
}

static void swap_list(struct string_list *a, struct string_list *b)
{
    struct string_list was = *a;

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
    if (switches_tls(running, fresh)) {
        swap_text(&running->console.tls.certificate,
                  &fresh->console.tls.certificate);
        swap_text(&running->console.tls.key, &fresh->console.tls.key);
    }
    swap_text(&running->cluster.keys, &fresh->cluster.keys);
    swap_text(&running->cluster.host, &fresh->cluster.host);
    swap_text(&running->audit.key, &fresh->audit.key);
    swap_list(&running->audit.old_keys, &fresh->audit.old_keys);
    swap_text(&running->replicate.database, &fresh->replicate.database);
    swap_text(&running->replicate.key, &fresh->replicate.key);
    fresh->replicate.takeover_after_ms = running->replicate.takeover_after_ms;
    fresh->replicate.accept_weak = running->replicate.accept_weak;
    swap_text(&running->ingress.host, &fresh->ingress.host);
    fresh->ingress.port = running->ingress.port;
    fresh->ingress.max_connections = running->ingress.max_connections;
}

/* ---- printing ---- */

void settings_print(const struct settings *s, struct buf *out)
{
    buf_printf(out, "# The configuration in effect, from %s\n", s->path);
    conf_print(&settings_root_section, s, out, 0, true);
}
