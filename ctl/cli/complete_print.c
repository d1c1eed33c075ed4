/* complete_print: the words themselves. A shell waits for this at each press of a
 * key: what does not respond at once is left out, and nothing is complained of. */
#include "ask.h"
#include "complete.h"
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLY_WITHIN_MS = 700, ERRORS_MAX_BYTES = 1024 * 1024 };

struct printer {
    struct ctl *c;
    const struct completion *plan;
};

static void offer(const struct printer *p, const char *word, const char *means)
{
    if (!word || strncmp(word, p->plan->begun, strlen(p->plan->begun)) != 0 ||
        strpbrk(word, " \t\r\n"))
        return;
    printf("%s%s\t%s\n", p->plan->head ? p->plan->head : "", word,
           means ? means : "");
}

/* ---- commands and options ---- */

static void offer_commands(const struct printer *p)
{
    const char *first = p->plan->first;
    size_t n = strlen(first);

    for (const struct command *c = ctl_commands; c->name; c++) {
        const char *space = strchr(c->name, ' ');

        if (!n && !space)
            offer(p, c->name, c->summary);
        if (n && space && (size_t)(space - c->name) == n &&
            strncmp(c->name, first, n) == 0)
            offer(p, space + 1, c->summary);
    }
}

static bool given(const struct printer *p, const char *option)
{
    for (int i = 0; i < p->plan->given; i++)
        if (strcmp(p->plan->words_given[i], option) == 0)
            return true;
    return false;
}

static void offer_options(const struct printer *p)
{
    const struct command *c = p->plan->command;

    for (const struct option_spec *o = c ? c->options : NULL; o && o->name; o++)
        if (!given(p, o->name))
            offer(p, o->name, o->help);
    offer(p, "--config", "the configuration");
    offer(p, "--run-dir", "the folder of the processes' sockets");
    offer(p, "--json", "print one JSON document");
    offer(p, "--local", "print times in the local time zone");
    offer(p, "--help", "show options and examples");
    if (!c)
        offer(p, "--version", "print the version");
}

static void offer_choices(const struct printer *p)
{
    char *all = gr_strdup(p->plan->choices), *at = all, *word;

    while ((word = strsep(&at, " ")))
        offer(p, word, NULL);
    free(all);
}

/* ---- names ---- */

static bool knows_run_dir(struct ctl *c)
{
    struct buf errors;
    bool known;

    buf_init(&errors, ERRORS_MAX_BYTES);
    known = find_run_dir(c, &errors);
    buf_fini(&errors);
    return known;
}

static json_t *ask_for(struct ctl *c, const char *process, const char *what,
                       json_t *args)
{
    bool unreachable;
    char why[200];

    return ask(c, process, what, args, REPLY_WITHIN_MS, &unreachable, why);
}

static void offer_list(const struct printer *p, const json_t *list,
                       const char *means)
{
    json_t *name;
    size_t i;

    json_array_foreach(list, i, name) offer(p, json_string_value(name), means);
}

static void offer_names(const struct printer *p, const char *kind,
                        const char *other)
{
    json_t *names = known_names(p->c);

    offer_list(p, json_object_get(names, kind), NULL);
    if (other)
        offer_list(p, json_object_get(names, other), NULL);
}

/* ---- what only the running system knows: the newest ---- */

static void offer_found(const struct printer *p, const char *process,
                        const char *what, json_t *args, const char *list_in,
                        const char *key, const char *means_key)
{
    json_t *reply = ask_for(p->c, process, what, args), *one, *list;
    size_t i;

    list = list_in ? json_object_get(reply, list_in) : reply;
    json_array_foreach(list, i, one)
        offer(p, json_string_value(json_object_get(one, key)),
              means_key ? text_of(one, means_key) : NULL);
    json_decref(reply);
}

static void offer_processes(const struct printer *p)
{
    struct processes found;

    processes_find(p->c, &found);
    for (size_t i = 0; i < found.count; i++)
        offer(p, found.names[i], NULL);
    processes_fini(&found);
}

static void offer_words(const struct printer *p)
{
    switch (p->plan->words) {
    case WORDS_ENDPOINT:
        offer_names(p, "endpoints", NULL);
        break;
    case WORDS_SOURCE:
        offer_names(p, "sources", NULL);
        break;
    case WORDS_POLICY:
        offer_names(p, "policies", NULL);
        break;
    case WORDS_ALERT:
        offer_names(p, "alerts", "notifiers");
        break;
    case WORDS_WORKSPACE:
        offer_found(p, "sequencer", "workspaces",
                    json_pack("{s:i}", "limit", 100), NULL, "workspace", NULL);
        break;
    case WORDS_EVENT:
        offer_found(p, "sequencer", "events", json_pack("{s:i}", "limit", 20),
                    "events", "id", "type");
        break;
    case WORDS_DUPLICATE:
        offer_found(p, "sequencer", "events",
                    json_pack("{s:i,s:s}", "limit", 20, "status", "duplicate"),
                    "events", "id", "type");
        break;
    case WORDS_PROCESS:
        offer_processes(p);
        break;
    case WORDS_GAP:
        offer_found(p, "sequencer", "gaps",
                    json_pack("{s:i,s:b}", "limit", 20, "open", 1), "gaps",
                    "id", "workspace");
        break;
    case WORDS_DEAD_LETTER:
        offer_found(p, "dlqd", "dlq", json_pack("{s:i}", "limit", 20),
                    "dead_letters", "id", "reason");
        break;
    default:
        break;
    }
}

int complete_print(struct ctl *c, const char *const *words, int count)
{
    struct completion plan;
    struct printer p = {c, &plan};

    complete_plan(ctl_commands, words, count, &plan);
    if (plan.config)
        c->config = c->parsed.config = plan.config;
    c->parsed.run_dir = plan.run_dir;
    if (plan.first)
        offer_commands(&p);
    if (plan.options)
        offer_options(&p);
    if (plan.words == WORDS_CHOICE)
        offer_choices(&p);
    else if (plan.words == WORDS_FILE)
        printf(":files\n");
    else if (plan.words == WORDS_FOLDER)
        printf(":folders\n");
    else if (plan.words == WORDS_PROVIDER)
        for (size_t i = 0; profile_name(i); i++)
            offer(&p, profile_name(i), NULL);
    else if (plan.words != WORDS_FREE && knows_run_dir(c))
        offer_words(&p);
    complete_fini(&plan);
    return 0;
}
