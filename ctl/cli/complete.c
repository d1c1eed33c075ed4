/* complete: finds and prints what may follow on a command line, for shells. */
#include "complete.h"
#include "ask.h"
#include "commands.h"
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const event_words[] = {"accepted", "buffered",  "routed",
                                          "done",     "duplicate", "ignored",
                                          "refused",  "expired",   NULL};
static const char *const when_words[] = {"5m", "1h", "24h", "7d", NULL};
static const char *const role_words[] = {"workspace", "viewer", "operator",
                                         "admin", NULL};
static const char *const expiry_words[] = {"24h", "30d", "90d", "365d", NULL};
static const char *const overlap_words[] = {"0s", "1h", "24h", "7d", NULL};
static const char *const outage_words[] = {"30s", "5m", "1h", NULL};

/* The value of an option. A declared argument of a request has its own words. */
static const struct {
    const char *option;
    enum words words;
    const char *const *choices;
} values[] = {
    {"--status", WORDS_CHOICE, event_words},
    {"--reason", WORDS_CHOICE, dead_letter_reasons},
    {"--role", WORDS_CHOICE, role_words},
    {"--expires", WORDS_CHOICE, expiry_words},
    {"--config", WORDS_FILE, NULL},
    {"-c", WORDS_FILE, NULL},
    {"--run-dir", WORDS_FOLDER, NULL},
    {"--offline", WORDS_FOLDER, NULL},
    {"--event", WORDS_FILE, NULL},
    {"--file", WORDS_FILE, NULL},
    {"--body", WORDS_FILE, NULL},
    {"--private-key", WORDS_FILE, NULL},
    {"--endpoint", WORDS_ENDPOINT, NULL},
    {"--to", WORDS_ENDPOINT, NULL},
    {"--then-reconcile", WORDS_SOURCE, NULL},
    {"--source", WORDS_SOURCE, NULL},
    {"--provider", WORDS_PROVIDER, NULL},
    {"--workspace", WORDS_WORKSPACE, NULL},
    {"--since", WORDS_CHOICE, when_words},
    {"--until", WORDS_CHOICE, when_words},
    {"--outage", WORDS_CHOICE, outage_words},
    {"--type", WORDS_FREE, NULL},
    {"--limit", WORDS_FREE, NULL},
    {"--count", WORDS_FREE, NULL},
    {"--rate", WORDS_FREE, NULL},
    {"--note", WORDS_FREE, NULL},
    {"--attempt", WORDS_FREE, NULL},
    {"--simulate", WORDS_FREE, NULL},
    {"--id", WORDS_FREE, NULL},
    {"--head", WORDS_FREE, NULL},
    {"--forward-to", WORDS_FREE, NULL},
    {"--console", WORDS_FREE, NULL},
    {"--token", WORDS_FREE, NULL},
    {"--ca", WORDS_FILE, NULL},
    {"--settings", WORDS_FILE, NULL},
    {"--description", WORDS_FREE, NULL},
    {"--overlap", WORDS_CHOICE, overlap_words},
    {"--if-version", WORDS_FREE, NULL},
    {"--period", WORDS_FREE, NULL},
    {"--user", WORDS_FREE, NULL},
    {"--for", WORDS_FREE, NULL},
    {"--schema", WORDS_FILE, NULL},
    {"--example", WORDS_FILE, NULL},
    {"--against", WORDS_FREE, NULL},
    {"--examples", WORDS_FREE, NULL},
    {"--output", WORDS_FILE, NULL},
    {"--keys", WORDS_FOLDER, NULL},
};

static const struct {
    const char *command;
    enum words words;
} arguments[] = {
    {"send", WORDS_SOURCE},
    {"trace", WORDS_EVENT},
    {"explain", WORDS_EVENT},
    {"show", WORDS_EVENT},
    {"evidence", WORDS_EVENT},
    {"rejects show", WORDS_FREE},
    {"rejects explain", WORDS_FREE},
    {"tokens create", WORDS_FREE},
    {"keys make", WORDS_FREE},
    {"keys show", WORDS_FREE},
    {"tokens revoke", WORDS_FREE},
    {"jobs cancel", WORDS_FREE},
    {"endpoints", WORDS_ENDPOINT},
    {"endpoints pause", WORDS_ENDPOINT},
    {"endpoints resume", WORDS_ENDPOINT},
    {"endpoints test", WORDS_ENDPOINT},
    {"drill", WORDS_ENDPOINT},
    {"endpoints plan", WORDS_ENDPOINT},
    {"endpoints stats", WORDS_ENDPOINT},
    {"endpoints create", WORDS_FREE},
    {"endpoints change", WORDS_ENDPOINT},
    {"endpoints rotate", WORDS_ENDPOINT},
    {"endpoints delete", WORDS_ENDPOINT},
    {"endpoints import", WORDS_FILE},
    {"listen", WORDS_ENDPOINT},
    {"types show", WORDS_TYPE},
    {"types set", WORDS_TYPE},
    {"types delete", WORDS_TYPE},
    {"types import", WORDS_FILE},
    {"retry", WORDS_EVENT},
    {"abandon", WORDS_EVENT},
    {"resend", WORDS_EVENT},
    {"release", WORDS_DUPLICATE},
    {"workspaces", WORDS_WORKSPACE},
    {"workspaces erase", WORDS_WORKSPACE},
    {"portal link", WORDS_WORKSPACE},
    {"gaps close", WORDS_GAP},
    {"dlq show", WORDS_DEAD_LETTER},
    {"dlq retry", WORDS_DEAD_LETTER},
    {"dlq resolve", WORDS_DEAD_LETTER},
    {"dlq discard", WORDS_DEAD_LETTER},
    {"retry-plan", WORDS_POLICY},
    {"outbox init", WORDS_SOURCE}, /* a relay is one */
    {"outbox check", WORDS_SOURCE},
    {"outbox status", WORDS_SOURCE},
    {"reconcile", WORDS_SOURCE},
    {"alerts test", WORDS_ALERT},
    {"alerts silence", WORDS_FREE},
    {"alerts unsilence", WORDS_FREE},
    {"backup", WORDS_FOLDER},
    {"health", WORDS_PROCESS},
    {"verify", WORDS_PROCESS},
    {"restore", WORDS_FOLDER},
    {"replicate begin", WORDS_PROCESS},
    {"replicate off", WORDS_PROCESS},
    {"handover", WORDS_PROCESS},
};

bool complete_kind(const struct command *command, const char *option,
                   enum words *out, const char *const **choices)
{
    *out = WORDS_FREE;
    *choices = NULL;
    for (const struct option_spec *o = option && command ? command->options
                                                         : NULL;
         o && o->name; o++) {
        const struct value *v = strcmp(o->name, option) == 0
                                    ? option_arg(command, o)
                                    : NULL;

        if (v && v->choices) {
            *out = WORDS_CHOICE;
            *choices = v->choices;
            return true;
        }
    }
    for (size_t i = 0; option && i < COUNT_OF(values); i++)
        if (strcmp(values[i].option, option) == 0) {
            *out = values[i].words;
            *choices = values[i].choices;
            return true;
        }
    for (size_t i = 0; !option && command && i < COUNT_OF(arguments); i++)
        if (strcmp(arguments[i].command, command->name) == 0) {
            *out = arguments[i].words;
            return true;
        }
    return false;
}

/* ---- where the cursor is ---- */

static bool takes_value(const struct command *c, const char *word)
{
    for (const struct option_spec *o = c ? c->options : NULL; o && o->name; o++)
        if (strcmp(o->name, word) == 0 && option_value(c, o))
            return true;
    return strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0 ||
           strcmp(word, "--run-dir") == 0;
}

/* The command that these two words name; `second` may be NULL. */
static const struct command *named(const struct command *commands,
                                   const char *first, const char *second)
{
    const struct command *found = NULL;

    for (const struct command *c = commands; c->name; c++) {
        const char *space = strchr(c->name, ' ');

        if (!space && strcmp(c->name, first) == 0)
            found = c;
        if (space && second && strncmp(c->name, first, strlen(first)) == 0 &&
            c->name + strlen(first) == space && strcmp(space + 1, second) == 0)
            return c;
    }
    return found;
}

struct completion_walk {
    const char *first, *second; /* words that are not options */
    int plain;                  /* how many of them */
    const char *option;         /* an option that waits for its value */
};

/* The words before the cursor. Bash passes "--endpoint=crm" as three words. */
static struct completion_walk walk(const struct command *commands,
                                   const char *const *words, int count,
                                   struct completion *out)
{
    struct completion_walk w = {0};

    for (int i = 0; i < count; i++) {
        const char *word = words[i];

        if (w.option && strcmp(word, "=") == 0)
            continue;
        if (w.option) {
            if (strcmp(w.option, "-c") == 0 ||
                strcmp(w.option, "--config") == 0)
                out->config = word;
            if (strcmp(w.option, "--run-dir") == 0)
                out->run_dir = word;
            w.option = NULL;
        } else if (word[0] == '-' && word[1]) {
            if (strncmp(word, "--config=", 9) == 0)
                out->config = word + 9;
            if (strncmp(word, "--run-dir=", 10) == 0)
                out->run_dir = word + 10;
            if (takes_value(out->command, word))
                w.option = word;
        } else {
            if (w.plain == 0)
                w.first = word;
            else if (w.plain == 1)
                w.second = word;
            w.plain++;
            if (w.plain <= 2)
                out->command = named(commands, w.first, w.second);
        }
    }
    return w;
}

static void plan_value(struct completion *out, const char *option)
{
    complete_kind(out->command, option, &out->words, &out->choices);
}

void complete_plan(const struct command *commands, const char *const *words,
                   int count, struct completion *out)
{
    const char *cursor = count > 0 ? words[count - 1] : "", *equals;
    struct completion_walk w;
    int name_words;

    *out = (struct completion){.begun = cursor,
                               .words_given = words,
                               .given = count > 0 ? count - 1 : 0};
    w = walk(commands, words, out->given, out);
    if (w.option) {
        if (strcmp(cursor, "=") == 0)
            out->begun = "";
        plan_value(out, w.option);
        return;
    }
    equals = strchr(cursor, '=');
    if (cursor[0] == '-' && equals) {
        char *option = gr_strndup(cursor, (size_t)(equals - cursor));

        plan_value(out, option);
        out->head = gr_strndup(cursor, (size_t)(equals + 1 - cursor));
        out->begun = equals + 1;
        free(option);
        return;
    }
    if (cursor[0] == '-') {
        out->options = true;
        return;
    }
    if (!w.plain) {
        out->first = "";
        return;
    }
    if (w.plain == 1)
        out->first = w.first; /* its second word may follow */
    if (!out->command)
        return;
    name_words = strchr(out->command->name, ' ') ? 2 : 1;
    if (out->command->max < 0 || w.plain - name_words < out->command->max)
        plan_value(out, NULL);
}

void complete_fini(struct completion *c)
{
    free(c->head);
}

/* ---- the words ---- */

enum {
    REPLY_WITHIN_MS = 700,
    ENDPOINTS_LOOKED_AT = 200,
    ERRORS_MAX_BYTES = 1024 * 1024
};

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
        if (!given(p, o->name)) {
            char *help = option_help(c, o);

            offer(p, o->name, help);
            free(help);
        }
    offer(p, "--config", "the configuration");
    offer(p, "--run-dir", "the folder of the processes' sockets");
    offer(p, "--json", "print one JSON document");
    offer(p, "--local", "print times in the local time zone");
    offer(p, "--help", "show options and examples");
    if (!c)
        offer(p, "--version", "print the version");
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

/* The `key` of each object in the list `list_in` of a reply. */
static void offer_found(const struct printer *p, const char *process,
                        const char *what, json_t *args, const char *list_in,
                        const char *key, const char *means_key)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(p->c, process, what, args, REPLY_WITHIN_MS,
                        &unreachable, why),
           *one;
    size_t i;

    json_array_foreach(json_object_get(reply, list_in), i, one)
        offer(p, json_string_value(json_object_get(one, key)),
              means_key ? text_of(one, means_key) : NULL);
    json_decref(reply);
}

/* Ids of endpoints made at run time, which only a running sequencer knows. */
static void offer_managed(const struct printer *p)
{
    bool unreachable;
    char why[200];
    json_t *reply = ask(p->c, "sequencer", "endpoints",
                        json_pack("{s:i}", "limit", ENDPOINTS_LOOKED_AT),
                        REPLY_WITHIN_MS, &unreachable, why),
           *one;
    size_t i;

    json_array_foreach(json_object_get(reply, "endpoints"), i, one)
    {
        if (strcmp(text_of(one, "managed_by"), "api") == 0)
            offer(p, text_of(one, "name"), text_of(one, "description"));
    }
    json_decref(reply);
}

static void offer_words(const struct printer *p)
{
    struct processes found;

    switch (p->plan->words) {
    case WORDS_ENDPOINT:
        offer_names(p, "endpoints", NULL);
        offer_managed(p);
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
                    json_pack("{s:i}", "limit", 100), "workspaces", "workspace",
                    NULL);
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
        processes_find(p->c, &found);
        for (size_t i = 0; i < found.count; i++)
            offer(p, found.names[i], NULL);
        processes_fini(&found);
        break;
    case WORDS_GAP:
        offer_found(p, "sequencer", "gaps",
                    json_pack("{s:i,s:b}", "limit", 20, "open", 1), "gaps",
                    "id", "workspace");
        break;
    case WORDS_TYPE:
        offer_found(p, "sequencer", "event_types",
                    json_pack("{s:i}", "limit", 100), "event_types", "name",
                    "description");
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
    struct buf ignored;

    complete_plan(ctl_commands, words, count, &plan);
    buf_init(&ignored, ERRORS_MAX_BYTES);
    if (plan.config)
        c->config = c->parsed.config = plan.config;
    c->parsed.run_dir = plan.run_dir;
    if (plan.first)
        offer_commands(&p);
    if (plan.options)
        offer_options(&p);
    if (plan.words == WORDS_CHOICE) {
        for (const char *const *word = plan.choices; *word; word++)
            offer(&p, *word, NULL);
    } else if (plan.words == WORDS_FILE) {
        printf(":files\n");
    } else if (plan.words == WORDS_FOLDER) {
        printf(":folders\n");
    } else if (plan.words == WORDS_PROVIDER) {
        for (size_t i = 0; profile_name(i); i++)
            offer(&p, profile_name(i), NULL);
    } else if (plan.words != WORDS_FREE && find_run_dir(c, &ignored)) {
        offer_words(&p);
    }
    buf_fini(&ignored);
    complete_fini(&plan);
    return 0;
}
