/* options: reads the command line by the table of commands. */
#include "options.h"
#include "alloc.h"
#include "conf.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The options of every command. */
enum global {
    GLOBAL_CONFIG,
    GLOBAL_RUN_DIR,
    GLOBAL_JSON,
    GLOBAL_LOCAL,
    GLOBAL_HELP,
    GLOBAL_VERSION
};

static const struct {
    const char *name, *letter;
    bool value;
} globals[] = {
    [GLOBAL_CONFIG] = {"--config", "-c", true},
    [GLOBAL_RUN_DIR] = {"--run-dir", NULL, true},
    [GLOBAL_JSON] = {"--json", NULL, false},
    [GLOBAL_LOCAL] = {"--local", NULL, false},
    [GLOBAL_HELP] = {"--help", "-h", false},
    [GLOBAL_VERSION] = {"--version", NULL, false},
};

/* Words are read first, then the options: the command decides which options exist, and its
 * name may follow some of them. */
struct option_reading {
    const struct command *commands;
    int argc;
    char **argv;
    struct parsed *out;
    char *why;
};

static int find_global(const char *name, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(globals); i++)
        if ((strlen(globals[i].name) == n &&
             memcmp(globals[i].name, name, n) == 0) ||
            (globals[i].letter && strlen(globals[i].letter) == n &&
             memcmp(globals[i].letter, name, n) == 0))
            return (int)i;
    return -1;
}

static const struct option_spec *find_option(const struct command *c,
                                             const char *name, size_t n)
{
    for (const struct option_spec *o = c ? c->options : NULL; o && o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

const struct value *option_arg(const struct command *c,
                               const struct option_spec *o)
{
    const struct value *v = o->help ? NULL : c->request->args;
    bool found = false;

    while (v && v->name && !found) {
        char *name = value_public_name(v);

        found = strcmp(name, o->name + strlen("--")) == 0;
        v += !found;
        free(name);
    }
    assert(o->help || found);
    return found ? v : NULL;
}

const char *option_value(const struct command *c, const struct option_spec *o)
{
    const struct value *v = option_arg(c, o);

    switch (v ? v->type : VALUE_ANY) {
    case VALUE_BOOL:
        return NULL;
    case VALUE_INTEGER:
        return "N";
    case VALUE_TIME_MS:
        return "WHEN";
    case VALUE_PATTERN:
        return "GLOB";
    case VALUE_CHOICE:
        return "WORD";
    default:
        return v ? "TEXT" : o->value;
    }
}

char *option_help(const struct command *c, const struct option_spec *o)
{
    const struct value *v = option_arg(c, o);
    char *help, *to;

    if (!v)
        return gr_strdup(o->help);
    help = v->otherwise
               ? gr_printf("%s (%" PRId64 ")", v->help, v->otherwise)
               : gr_printf("%s%s", v->help,
                           v->flags & VALUE_REQUIRED ? " (required)" : "");
    to = help;
    for (const char *at = help; *at; at++) /* without Markdown */
        if (*at != '`')
            *to++ = *at;
    *to = 0;
    return help;
}

void option_error(const struct command *c, char why[200])
{
    const char prefix[] = "args.", *at = why + sizeof prefix - 1, *end;
    char name[64], rest[200];
    bool given = false;

    if (strncmp(why, prefix, sizeof prefix - 1) != 0)
        return;
    end = at + strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    snprintf(name, sizeof name, "--%.*s", (int)(end - at), at);
    for (char *byte = name; *byte; byte++)
        if (*byte == '_')
            *byte = '-';
    if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "-ms") == 0)
        name[strlen(name) - 3] = 0;
    for (int i = 0; c && c->options[i].name; i++)
        given |= strcmp(c->options[i].name, name) == 0;
    snprintf(rest, sizeof rest, "%s", given ? end : at);
    snprintf(why, 200, "%s%.*s", given ? name : "", 200 - (int)sizeof name,
             rest);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1];
}

/* "--name=value" or "-cvalue": returns the bytes of the name; *value: the value, or NULL. */
static size_t split(const char *word, const char **value)
{
    const char *equals = strchr(word, '=');

    *value = NULL;
    if (word[1] != '-') {
        *value = word[2] ? word + 2 : NULL;
        return 2;
    }
    if (!equals)
        return strlen(word);
    *value = equals + 1;
    return (size_t)(equals - word);
}

/* ---- words ---- */

/* Takes the words that are not options. An option has a value if any command has it with a
 * value, because the command is not known yet. */
static void take_words(struct option_reading *r)
{
    const char *value;

    r->out->args = gr_alloc(((size_t)r->argc + 1) * sizeof *r->out->args);
    for (int i = 1; i < r->argc; i++) {
        const char *word = r->argv[i];
        bool takes_value;
        int global;
        size_t n;

        if (strcmp(word, "--") == 0) {
            while (++i < r->argc)
                r->out->args[r->out->arg_count++] = r->argv[i];
            return;
        }
        if (!is_option(word)) {
            r->out->args[r->out->arg_count++] = word;
            continue;
        }
        n = split(word, &value);
        global = find_global(word, n);
        takes_value = global >= 0 && globals[global].value;
        for (const struct command *c = r->commands; c->name; c++) {
            const struct option_spec *o = find_option(c, word, n);

            takes_value |= o && option_value(c, o);
        }
        if (!value && takes_value)
            i++;
    }
}

/* The first word is that of commands with two words only: lists their second words. false: it is not. */
static bool is_family(const struct option_reading *r, struct buf *seconds)
{
    const char *word = r->out->args[0];
    size_t n = strlen(word);

    for (const struct command *c = r->commands; c->name; c++)
        if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ')
            buf_printf(seconds, "%s%s", seconds->len ? ", " : "",
                       c->name + n + 1);
    return seconds->len;
}

/* Takes the longest name of a command off the words. Without words there is none, and no
 * error. */
static gr_rc find_command(struct option_reading *r)
{
    struct parsed *p = r->out;
    struct conf_near near = {0};
    int best = 0;
    char hint[100];

    if (!p->arg_count)
        return GR_OK;
    near.text = p->args[0];
    for (const struct command *c = r->commands; c->name; c++) {
        const char *space = strchr(c->name, ' ');
        size_t first = space ? (size_t)(space - c->name) : strlen(c->name);
        int words = space ? 2 : 1;

        if (!space)
            conf_near_try(&near, c->name);
        if (words > best && words <= p->arg_count &&
            strlen(p->args[0]) == first &&
            memcmp(p->args[0], c->name, first) == 0 &&
            (!space || strcmp(p->args[1], space + 1) == 0)) {
            best = words;
            p->command = c;
        }
    }
    if (!best) {
        struct buf seconds;

        buf_init(&seconds, 200);
        p->family = is_family(r, &seconds) ? near.text : NULL;
        snprintf(r->why, 400, "grapnel %.60s needs one of these words: %s",
                 near.text, seconds.len ? seconds.data : "");
        buf_fini(&seconds);
        if (p->family)
            return GR_OK;
        if (strcmp(near.text, "help") == 0)
            near.best = "--help";
        snprintf(r->why, 400, "there is no command \"%.60s\"%s", near.text,
                 conf_near_hint(&near, hint));
        return GR_REFUSE;
    }
    p->arg_count -= best;
    memmove(p->args, p->args + best,
            ((size_t)p->arg_count + 1) * sizeof *p->args);
    return GR_OK;
}

/* ---- options ---- */

/* A mistyped second word of a name looks like an argument: "dlq shwo ID",
 * "endpoints puase crm". true: `why` contains the hint. */
static bool mistyped_second(struct option_reading *r)
{
    const struct command *c = r->out->command;
    size_t first = c ? strlen(c->name) : 0;
    char hint[100];

    for (int i = 0; c && i < r->out->arg_count; i++) {
        struct conf_near near = {.text = r->out->args[i]};

        for (const struct command *k = r->commands; k->name; k++)
            if (strncmp(k->name, c->name, first) == 0 && k->name[first] == ' ')
                conf_near_try(&near, k->name + first + 1);
        if (!near.best)
            continue;
        snprintf(r->why, 400, "grapnel %s has no argument \"%.60s\"%s", c->name,
                 near.text, conf_near_hint(&near, hint));
        return true;
    }
    return false;
}

static gr_rc unknown_option(struct option_reading *r, const char *word,
                            size_t n)
{
    const struct command *c = r->out->command;
    char *name = gr_strndup(word, n), hint[100];
    struct conf_near near = {.text = name};

    for (size_t i = 0; i < COUNT_OF(globals); i++)
        conf_near_try(&near, globals[i].name);
    for (const struct option_spec *o = c ? c->options : NULL; o && o->name; o++)
        conf_near_try(&near, o->name);
    snprintf(r->why, 400, "%s%s has no option %.60s%s", c ? "grapnel " : "",
             c ? c->name : "grapnel", name, conf_near_hint(&near, hint));
    free(name);
    if (!near.best)
        mistyped_second(r);
    return GR_REFUSE;
}

static gr_rc take_option(struct option_reading *r, int *i)
{
    const char *word = r->argv[*i], *value, *wants;
    size_t n = split(word, &value);
    int global = find_global(word, n);
    const struct option_spec *o = find_option(r->out->command, word, n);
    bool takes_value;

    if (global < 0 && !o)
        return unknown_option(r, word, n);
    wants = global < 0 ? option_value(r->out->command, o) : NULL;
    takes_value = global >= 0 ? globals[global].value : wants != NULL;
    if (!takes_value && value) {
        snprintf(r->why, 400, "%.*s takes no value", (int)n, word);
        return GR_REFUSE;
    }
    if (takes_value && !value)
        value = *i + 1 < r->argc ? r->argv[++*i] : NULL;
    if (takes_value && !value) {
        snprintf(r->why, 400, "%.*s needs a value%s%s", (int)n, word,
                 wants ? ": " : "", wants ? wants : "");
        return GR_REFUSE;
    }
    switch (global) {
    case GLOBAL_CONFIG:
        r->out->config = value;
        return GR_OK;
    case GLOBAL_RUN_DIR:
        r->out->run_dir = value;
        return GR_OK;
    case GLOBAL_JSON:
        r->out->json = true;
        return GR_OK;
    case GLOBAL_LOCAL:
        r->out->local = true;
        return GR_OK;
    case GLOBAL_HELP:
        r->out->help = true;
        return GR_OK;
    case GLOBAL_VERSION:
        r->out->version = true;
        return GR_OK;
    default: /* an option of the command */
        break;
    }
    if (r->out->values[o - r->out->command->options]) {
        snprintf(r->why, 400, "%s is given twice", o->name);
        return GR_REFUSE;
    }
    r->out->values[o - r->out->command->options] = value ? value : "";
    return GR_OK;
}

gr_rc options_parse(const struct command *commands, int argc, char **argv,
                    struct parsed *out, char why[400])
{
    struct option_reading r = {commands, argc, argv, out, why};
    const struct command *c;

    *out = (struct parsed){0};
    take_words(&r);
    if (find_command(&r) != GR_OK)
        return GR_REFUSE;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_option(argv[i]) && take_option(&r, &i) != GR_OK)
            return GR_REFUSE;
    c = out->command;
    if (out->family && !out->help) /* `why` is that of find_command() */
        return GR_REFUSE;
    if (!c || out->help || out->version)
        return GR_OK;
    if (out->arg_count < c->min) {
        snprintf(why, 400, "grapnel %s needs %s", c->name, c->args);
        return GR_REFUSE;
    }
    if (c->max < 0 || out->arg_count <= c->max)
        return GR_OK;
    if (!mistyped_second(&r))
        snprintf(why, 400, "grapnel %s has no argument \"%.60s\"", c->name,
                 out->args[c->max]);
    return GR_REFUSE;
}

void parsed_fini(struct parsed *p)
{
    free(p->args);
    p->args = NULL;
}

const char *parsed_value(const struct parsed *p, const char *option)
{
    for (int i = 0; p->command->options[i].name; i++)
        if (strcmp(p->command->options[i].name, option) == 0)
            return p->values[i];
    assert(!"an option that its command does not declare");
    return NULL;
}
