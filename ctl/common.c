#include "clock.h"
#include "ctl.h"
#include "table.h"
#include "when.h"
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ERRORS_MAX_BYTES = 1024 * 1024,
    KEPT_TEXTS = 16,
    LIST_DEFAULT = 100,
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
    fprintf(stderr, "grapnel: %s\n", safe);
    free(safe);
    free(text);
    return code;
}

void need_settings(struct ctl *c)
{
    struct buf errors;

    if (c->settings)
        return;
    buf_init(&errors, ERRORS_MAX_BYTES);
    c->settings = settings_load(c->config, &errors);
    if (!c->settings) {
        fwrite(errors.data, 1, errors.len, stderr);
        if (!c->parsed.config && !getenv("GRAPNEL_CONFIG"))
            fprintf(stderr, "Name the file with -c FILE or $GRAPNEL_CONFIG.\n");
        exit(EXIT_CONFIG);
    }
    buf_fini(&errors);
}

void print_json(json_t *doc)
{
    json_dumpf(doc, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(doc);
}

/* ---- texts out of answers ---- */

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

const char *time_of(const json_t *object, const char *key)
{
    const char *at = text_of(object, key);
    char *out;

    if (strlen(at) < 20 || at[10] != 'T')
        return *at ? at : "-";
    out = gr_strdup(at);
    out[10] = ' ';
    out[strlen(out) - 1] = 0; /* the Z; the reader is told once that it's UTC */
    return keep(out);
}

/* ---- options of lists ---- */

static bool put_time(struct ctl *c, json_t *args, const char *option,
                     const char *key)
{
    const char *text = parsed_value(&c->parsed, option);
    char why[200];
    int64_t ms;

    if (!text)
        return true;
    if (when_parse(text, now_ms(), &ms, why) != GR_OK) {
        complain(EXIT_USAGE, "%s: %s", option, why);
        return false;
    }
    json_object_set_new(args, key, json_integer(ms));
    return true;
}

bool put_limit(struct ctl *c, json_t *args)
{
    const char *text = parsed_value(&c->parsed, "--limit");
    int64_t limit = LIST_DEFAULT;
    const char *why;

    if (text && (conf_parse_int(text, &limit, &why) != GR_OK || limit < 1)) {
        complain(EXIT_USAGE,
                 "--limit: a whole number from 1 is meant, not \"%s\"", text);
        return false;
    }
    json_object_set_new(args, "limit", json_integer(limit));
    return true;
}

/* A filter may name what the configuration no longer has, so it is only hinted
 * that this may be a slip. */
static void hint_at(struct ctl *c, const char *option, const char *value)
{
    bool endpoint = strcmp(option, "--endpoint") == 0;
    json_t *names, *name, *list;
    struct conf_near near = {.text = value};
    char hint[100];
    size_t i;

    if ((!endpoint && strcmp(option, "--source") != 0) || strchr(value, '*'))
        return;
    need_settings(c);
    names = settings_names(c->settings);
    list = json_object_get(names, endpoint ? "endpoints" : "sources");
    json_array_foreach(list, i, name)
    {
        if (strcmp(json_string_value(name), value) == 0)
            goto out;
        conf_near_try(&near, json_string_value(name));
    }
    if (near.best)
        complain(0, "the configuration has no %s \"%s\"%s", option + 2, value,
                 conf_near_hint(&near, hint));
out:
    json_decref(names);
}

bool put_filters(struct ctl *c, json_t *args, const char *const *texts)
{
    for (; *texts; texts++) {
        const char *value = parsed_value(&c->parsed, *texts);

        if (value) {
            json_object_set_new(args, *texts + strlen("--"),
                                json_string(value));
            hint_at(c, *texts, value);
        }
        if (value && !json_object_get(args, *texts + strlen("--"))) {
            complain(EXIT_USAGE, "%s: this is no UTF-8", *texts);
            return false;
        }
    }
    return put_time(c, args, "--since", "since_ms") &&
           put_time(c, args, "--until", "until_ms") && put_limit(c, args);
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

char *read_file(const char *path, size_t most, size_t *bytes)
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
    buf_init(&b, most);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && !b.failed)
        buf_put(&b, chunk, n);
    bad = ferror(f);
    if (bad)
        complain(EXIT_REFUSED, "%s: %s", path, strerror(errno));
    else if (b.failed)
        complain(EXIT_REFUSED, "%s: more than %zu bytes", path, most);
    if (f != stdin)
        fclose(f);
    if (bad || b.failed) {
        buf_fini(&b);
        return NULL;
    }
    *bytes = b.len;
    return buf_take(&b);
}
