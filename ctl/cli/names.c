/* names: checks the values of options against lists of words and against the names that exist. */
#include "names.h"
#include "ask.h"
#include "complete.h"
#include "conf.h"
#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 1000 }; /* workspaces, and newest events for their types */

/* ---- words of a fixed list ---- */

static bool is_word(const char *const *choices, struct conf_near *near)
{
    for (; choices && *choices; choices++) {
        if (strcmp(*choices, near->text) == 0)
            return true;
        conf_near_try(near, *choices);
    }
    return false;
}

/* NULL: the values of this option are not words of a list. */
static const char *const *choices_of(struct ctl *c, const char *option)
{
    const char *const *choices;
    enum words words;

    complete_kind(c->parsed.command, option, &words, &choices);
    return choices;
}

bool is_choice(struct ctl *c, const char *option)
{
    struct conf_near near = {.text = parsed_value(&c->parsed, option)};
    const char *const *choices = choices_of(c, option);
    struct buf all;
    char hint[100];

    if (!near.text || is_word(choices, &near))
        return true;
    buf_init(&all, 4096);
    for (; *choices; choices++)
        buf_printf(&all, " %s", *choices);
    complain(EXIT_USAGE, "%s: \"%s\" is unknown%s; write one of:%s", option,
             near.text, conf_near_hint(&near, hint), all.data);
    buf_fini(&all);
    return false;
}

/* ---- names that exist ---- */

static bool is_in(const json_t *list, const char *key, struct conf_near *near)
{
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(key ? json_object_get(one, key)
                                                 : one);

        if (name && strcmp(name, near->text) == 0)
            return true;
        if (name)
            conf_near_try(near, name);
    }
    return false;
}

/* Whether a list of the sequencer has the name; true if the sequencer does not respond. `c`
 * keeps the reply, because the nearest name points into it. */
static bool sequencer_has(struct ctl *c, const char *what, json_t *args,
                          const char *list, const char *key,
                          struct conf_near *near)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(c, "sequencer", what, args, ASK_STATUS_MS, &unreachable,
                        why);
    bool found = unreachable || is_in(json_object_get(reply, list), key, near);

    json_decref(c->found);
    c->found = reply;
    return found;
}

/* false: the sequencer responds, and has no such workspace. */
static bool has_workspace(struct ctl *c, const char *name)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(c, "sequencer", "workspace",
                        json_pack("{s:s}", "workspace", name), ASK_STATUS_MS,
                        &unreachable, why);
    bool there = reply || unreachable;

    json_decref(reply);
    return there;
}

/* The sequencer keeps a row of each workspace for ever; types are those of the newest events. */
static bool is_there(struct ctl *c, const char *option, struct conf_near *near)
{
    const json_t *names;

    if (strcmp(option, "--workspace") == 0)
        return has_workspace(c, near->text) ||
               sequencer_has(c, "workspaces",
                             json_pack("{s:i}", "limit", LOOKED_AT),
                             "workspaces", "workspace", near);
    if (strcmp(option, "--type") == 0)
        return sequencer_has(c, "events",
                             json_pack("{s:i}", "limit", LOOKED_AT), "events",
                             "type", near);
    if (strcmp(option, "--reason") == 0)
        return strncmp(near->text, "refused:", strlen("refused:")) == 0 ||
               is_word(choices_of(c, option), near);
    if (strcmp(option, "--endpoint") == 0 && endpoint_id_valid(near->text))
        return is_run_time_endpoint(c, near->text);
    names = strcmp(option, "--endpoint") == 0 || strcmp(option, "--source") == 0
                ? known_names(c)
                : NULL;
    return !names ||
           is_in(json_object_get(names, strcmp(option, "--endpoint") == 0
                                            ? "endpoints"
                                            : "sources"),
                 NULL, near);
}

int unknown_filter(struct ctl *c, const char *const *options)
{
    char hint[100];

    for (; *options; options++) {
        struct conf_near near = {.text = parsed_value(&c->parsed, *options)};

        /* Patterns, and names that no list has: "-" is the source of requests to an
         * unknown source, and the configuration does not have a backfill's endpoint. */
        if (!near.text || strchr(near.text, '*') ||
            strcmp(near.text, "-") == 0 ||
            strncmp(near.text, BACKFILL_PREFIX, strlen(BACKFILL_PREFIX)) == 0 ||
            is_there(c, *options, &near))
            continue;
        return complain(
            EXIT_REFUSED, "nothing was found: there is no %s \"%s\"%s",
            *options + strlen("--"), near.text, conf_near_hint(&near, hint));
    }
    return 0;
}
