/* common: what all commands share: run_dir, settings and names; errors; texts from replies; options
 * of searches; files. ctl.h has the contracts. */
#include "ask.h"
#include "clock.h"
#include "conf.h"
#include "config.h"
#include "json_text.h"
#include "names.h"
#include "table.h"
#include "when.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ERRORS_MAX_BYTES = 1024 * 1024,
    KEPT_TEXTS = 16,
    LIST_DEFAULT = 100,
    METRICS_INTERVAL_MS = 5000, /* the default of metrics.interval */
};

int complain(int code, const char *fmt, ...)
{
    char *text = NULL, *safe;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die(EXIT_STORAGE, "out of memory");
    va_end(ap);
    safe = harmless(text);
    fflush(
        stdout); /* both may be one file: keeps the order of output and errors */
    fprintf(stderr, "grapnel: %s\n", safe);
    free(safe);
    free(text);
    return code;
}

/* ---- the configuration ---- */

bool find_run_dir(struct ctl *c, struct buf *errors)
{
    static const char *const keys[] = {"run_dir", NULL};
    const char *dir = c->parsed.run_dir, *set = getenv("GRAPNEL_RUN_DIR");
    struct settings *s;

    if (c->run_dir)
        return true;
    if (!dir && !c->parsed.config && set && *set)
        dir = set;
    if (dir) {
        c->run_dir = gr_strdup(dir);
        return true;
    }
    s = settings_load_part(c->config, keys, errors);
    if (!s)
        return false;
    c->run_dir = gr_strdup(s->run_dir);
    settings_free(s);
    return true;
}

/* Does not return. */
_Noreturn static void bad_settings(struct buf *errors, const char *why)
{
    fwrite(errors->data, 1, errors->len, stderr);
    complain(EXIT_CONFIG, "%s", why);
    exit(EXIT_CONFIG);
}

void need_run_dir(struct ctl *c)
{
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    if (!find_run_dir(c, &errors))
        bad_settings(&errors,
                     "this command needs only run_dir, the folder of the "
                     "processes' sockets: --run-dir DIR or $GRAPNEL_RUN_DIR "
                     "sets it without a configuration");
    buf_fini(&errors);
}

void need_settings(struct ctl *c, const char *const *keys, const char *why)
{
    struct buf errors;

    buf_init(&errors, ERRORS_MAX_BYTES);
    c->settings = keys ? settings_load_part(c->config, keys, &errors)
                       : settings_load(c->config, &errors);
    if (!c->settings)
        bad_settings(&errors, why);
    buf_fini(&errors);
}

/* ---- names ---- */

json_t *known_names(struct ctl *c)
{
    static const char *const first = "sequencer";
    struct settings *s;
    struct processes p;
    struct buf ignored;
    bool unreachable;
    char why[200];

    if (!c->names)
        c->names = ask(c, first, "names", NULL, ASK_NAMES_MS, &unreachable,
                       why);
    if (c->names)
        return c->names;
    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !c->names; i++)
        if (strcmp(p.names[i], first) != 0)
            c->names = ask(c, p.names[i], "names", NULL, ASK_NAMES_MS,
                           &unreachable, why);
    processes_fini(&p);
    if (!c->names) {
        buf_init(&ignored, ERRORS_MAX_BYTES);
        s = settings_load(c->config, &ignored);
        if (s)
            c->names = settings_names(s);
        settings_free(s);
        buf_fini(&ignored);
    }
    return c->names;
}

int64_t metrics_interval_ms(struct ctl *c)
{
    json_int_t ms = json_integer_value(
        json_object_get(known_names(c), "metrics_interval_ms"));

    return ms > 0 ? ms : METRICS_INTERVAL_MS;
}

bool is_known(struct ctl *c, const char *list, const char *what,
              const char *name)
{
    struct conf_near near = {.text = name};
    json_t *names = name ? known_names(c) : NULL, *known;
    char hint[100];
    size_t i;

    if (!names)
        return true;
    json_array_foreach(json_object_get(names, list), i, known)
    {
        if (strcmp(json_string_value(known), name) == 0)
            return true;
        conf_near_try(&near, json_string_value(known));
    }
    complain(EXIT_REFUSED, "there is no %s \"%s\"%s", what, name,
             conf_near_hint(&near, hint));
    return false;
}

/* false: the sequencer says that no endpoint has this name. */
static bool may_be_there(struct ctl *c, const char *command, json_t *args)
{
    bool unreachable = false;
    char why[200];
    json_t *reply = ask(c, "sequencer", command, args, ASK_NAMES_MS,
                        &unreachable, why);
    bool there = reply || unreachable;

    json_decref(reply);
    return there;
}

bool is_run_time_endpoint(struct ctl *c, const char *id)
{
    return may_be_there(c, "endpoint", json_pack("{s:s}", "name", id));
}

/* The endpoint of a backfill is not in the configuration; its name ends with that of its
 * source. */
bool is_endpoint(struct ctl *c, const char *name)
{
    size_t n = strlen(BACKFILL_PREFIX);

    if (name && strncmp(name, BACKFILL_PREFIX, n) == 0)
        return is_known(c, "sources", "source", name + n);
    if (name && endpoint_id_valid(name) &&
        may_be_there(c, "facts",
                     json_pack("{s:[],s:s}", "ids", "endpoint", name)))
        return true;
    return is_known(c, "endpoints", "endpoint", name);
}

void print_json(json_t *doc)
{
    json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(doc);
}

/* ---- texts from replies ---- */

static const char *keep(char *text)
{
    static char *kept[KEPT_TEXTS];
    static size_t next;

    free(kept[next]);
    kept[next] = text;
    text = kept[next];
    next = (next + 1) % KEPT_TEXTS;
    return text;
}

const char *text_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    if (json_is_string(v))
        return keep(harmless(json_string_value(v)));
    if (json_is_integer(v))
        return keep(gr_printf("%lld", (long long)json_integer_value(v)));
    return "";
}

int64_t integer_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *text_or_dash(const json_t *object, const char *key)
{
    const char *text = text_of(object, key);

    return *text ? text : "-";
}

char *provider_names(const json_t *event)
{
    const char *id = text_of(event, "provider_id"),
               *delivery = text_of(event, "delivery_id");

    if (strcmp(id, delivery) == 0)
        delivery = "";
    return gr_printf("%s%s%s%s", *id ? ", its id " : "", id,
                     *delivery ? ", delivery " : "", delivery);
}

const char *time_of(const json_t *object, const char *key)
{
    const char *at = text_of(object, key);
    char out[WHEN_BYTES];
    int64_t us;

    if (!rfc3339_parse(at, strlen(at), RFC3339_FULL, &us))
        return *at ? at : "-";
    when_print(out, us / 1000);
    return keep(gr_strdup(out));
}

/* ---- options of lists ---- */

bool is_utf8(const char *what, const char *text)
{
    if (!text || utf8_valid((struct bytes){text, strlen(text)}))
        return true;
    complain(EXIT_USAGE, "%s is not UTF-8", what);
    return false;
}

/* A whole number; `v` NULL: no argument is declared. NULL: the error was printed. */
static json_t *integer_value(const struct command_spec *request,
                             const struct value *v, const char *option,
                             const char *text)
{
    /* A list that is read page by page can be longer than one reply. */
    bool pages = v && (command_arg(request, "before") ||
                       command_arg(request, "after"));
    int64_t n, min = v ? v->min : 1,
               max = v && v->max && !pages ? v->max : INT64_MAX;
    const char *why;

    if (conf_parse_int(text, &n, &why) == GR_OK && n >= min && n <= max)
        return json_integer(n);
    if (max == INT64_MAX)
        complain(EXIT_USAGE,
                 "%s: \"%s\" is not a whole number from %" PRId64 " on", option,
                 text, min);
    else
        complain(EXIT_USAGE,
                 "%s: \"%s\" is not a whole number from %" PRId64
                 " to %" PRId64,
                 option, text, min, max);
    return NULL;
}

/* The value of an option as its argument is declared. NULL: the error was printed. */
static json_t *arg_value(struct ctl *c, const struct value *v,
                         const char *option, const char *text)
{
    char why[200];
    json_t *j;
    int64_t ms;

    switch (v->type) {
    case VALUE_BOOL:
        return json_true();
    case VALUE_INTEGER:
        return integer_value(c->parsed.command->request, v, option, text);
    case VALUE_TIME_MS:
        if (when_parse(text, now_ms(), &ms, why) == GR_OK)
            return json_integer(ms);
        complain(EXIT_USAGE, "%s: %s", option, why);
        return NULL;
    case VALUE_CHOICE:
        return is_choice(c, option) ? json_string(text) : NULL;
    default:
        j = json_string(text);
        if (j && value_fits(v, j, option, why))
            return j;
        complain(EXIT_USAGE, j ? "%s" : "%s is not UTF-8", j ? why : option);
        json_decref(j);
        return NULL;
    }
}

bool put_limit(struct ctl *c, json_t *args)
{
    const struct command_spec *request = c->parsed.command->request;
    const char *text = parsed_value(&c->parsed, "--limit");
    json_t *limit;

    if (!text)
        return true;
    limit = integer_value(request,
                          request ? command_arg(request, "limit") : NULL,
                          "--limit", text);
    return limit && json_object_set_new(args, "limit", limit) == 0;
}

bool put_filters(struct ctl *c, json_t *args)
{
    const struct command *command = c->parsed.command;

    for (const struct option_spec *o = command->options; o->name; o++) {
        const struct value *v = option_arg(command, o);
        const char *text = parsed_value(&c->parsed, o->name);
        json_t *j = v && text ? arg_value(c, v, o->name, text) : NULL;

        if (j)
            json_object_set_new(args, v->name, j);
        else if (v && text)
            return false;
    }
    return true;
}

int64_t list_limit(const struct ctl *c)
{
    const char *text = parsed_value(&c->parsed, "--limit"), *why;
    int64_t limit = LIST_DEFAULT;

    if (text && conf_parse_int(text, &limit, &why) != GR_OK)
        limit = LIST_DEFAULT;
    return limit;
}

const char *user_name(void)
{
    const struct passwd *user = getpwuid(geteuid());

    return user ? user->pw_name : "an operator";
}

/* ---- files ---- */

char *read_file(const char *path, size_t max, size_t *bytes)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    struct buf b;
    char chunk[16384];
    size_t n;
    bool bad;

    if (!f) {
        complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
        return NULL;
    }
    buf_init(&b, max);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && !b.failed)
        buf_put(&b, chunk, n);
    bad = ferror(f);
    if (bad)
        complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
    else if (b.failed)
        complain(EXIT_REFUSED, "%s: more than %zu bytes", path, max);
    if (f != stdin)
        fclose(f);
    if (bad || b.failed) {
        buf_fini(&b);
        return NULL;
    }
    *bytes = b.len;
    return buf_take(&b);
}
