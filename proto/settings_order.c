/* settings_order: a source's `order` and `states`. */
#include "settings_types.h"
#include <stdlib.h>
#include <string.h>

static const char *const by_words[] = {[ORDER_ARRIVAL] = "arrival",
                                       [ORDER_SEQUENCE] = "sequence",
                                       [ORDER_TIMESTAMP] = "timestamp",
                                       NULL};
static const char *const per_words[] = {"workspace", "type", NULL};
static const char *const invalid_words[] = {"ignore", "dead_letter", NULL};

/* A word, or a number that YAML may take for one. */
static void read_start(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    char *text = conf_scalar(v, "first or 1");

    (void)k;
    if (text && strcmp(text, "first") != 0 && strcmp(text, "1") != 0)
        conf_error(v, "\"%.60s\" is none of: first, 1", text);
    *(bool *)target = text && strcmp(text, "first") == 0;
    free(text);
}

static void print_start(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, *(const bool *)target ? " first\n" : " 1\n");
}

static const struct conf_type as_start = {
    .name = "word", .read = read_start, .print = print_start};

/* Keys that mean something with some kinds of order only. */
static const struct {
    const char *key;
    unsigned kinds; /* bit set */
} kind_keys[] = {
    {"sequence", 1 << ORDER_SEQUENCE},
    {"give_up_after", 1 << ORDER_SEQUENCE},
    {"backfill", 1 << ORDER_SEQUENCE},
    {"buffer", 1 << ORDER_SEQUENCE | 1 << ORDER_TIMESTAMP},
    {"timestamp", 1 << ORDER_TIMESTAMP},
    {"window", 1 << ORDER_TIMESTAMP},
};

/* What the kind of order has no use for stays 0. */
static void fill(struct order *o)
{
    if (o->by == ORDER_SEQUENCE && !o->give_up_after_ms)
        o->give_up_after_ms = 30 * SECOND_MS;
    if (o->by == ORDER_TIMESTAMP && !o->window_ms)
        o->window_ms = 2 * SECOND_MS;
    if (o->by != ORDER_ARRIVAL && !o->buffer)
        o->buffer = 1000;
}

static void check_order(const struct conf_value *v, void *target)
{
    struct order *o = target;

    for (size_t i = 0; i < COUNT_OF(kind_keys); i++)
        if (conf_has(v, kind_keys[i].key) && !(kind_keys[i].kinds >> o->by & 1))
            conf_error_key(v, kind_keys[i].key, "means nothing with by: %s",
                           by_words[o->by]);
    if (o->by == ORDER_SEQUENCE && !conf_has(v, "sequence"))
        conf_error_key(v, "sequence",
                       "is missing: by: sequence needs to know where an "
                       "event's number is");
    if (o->by == ORDER_TIMESTAMP && !conf_has(v, "timestamp"))
        conf_error_key(v, "timestamp",
                       "is missing: by: timestamp needs to know where an "
                       "event's time is");
    if (!o->backfill && o->signing_secrets.count)
        conf_error_key(v, "signing_secrets",
                       "is for backfill, and there is "
                       "none");
    if (!o->backfill && (o->allow_private || o->allow_cidr_count))
        conf_error_key(v, "allow_private",
                       "is for backfill, and there is none");
    fill(o);
}

const struct conf_section settings_order_section = {
    .name = "order",
    .help = "In which order a source's events are let go. A stream is a "
            "(source, workspace), or a (source, workspace, type) with "
            "`sequence_per: type`.",
    .check = check_order,
    .keys =
        (const struct conf_key[]){
            {.name = "by",
             .type = &conf_as_choice,
             AT(order, by),
             .choices = by_words,
             .fallback = "arrival",
             .help = "as they come; by the source's own numbers; or, where "
                     "there are none, by a time"},
            {.name = "sequence",
             .type = &settings_as_expr,
             AT(order, sequence),
             .help = "where the number is"},
            {.name = "sequence_per",
             .type = &conf_as_either,
             AT(order, per_type),
             .choices = per_words,
             .fallback = "workspace",
             .help = "what is numbered"},
            {.name = "start",
             .type = &as_start,
             AT(order, start_first),
             .form = "`first`, `1`",
             .fallback = "first",
             .help = "where a stream begins: at the first number seen, or at "
                     "1"},
            {.name = "tolerance_gap",
             .type = &conf_as_int,
             AT(order, tolerance_gap),
             .fallback = "0",
             .min = 0,
             .max = 1000000,
             .help = "a hole of at most so many numbers holds nothing back: it "
                     "is noted, and what comes late is delivered late"},
            {.name = "buffer",
             .type = &conf_as_int,
             AT(order, buffer),
             .min = 1,
             .max = 1000000,
             .help = "events held back in one stream (absent: 1000); at more, "
                     "the oldest gap is given up"},
            {.name = "give_up_after",
             .type = &conf_as_duration,
             AT(order, give_up_after_ms),
             .min = 1,
             .max = 365 * DAY_MS,
             .help = "how long a missing number is waited for, in time in "
                     "which it could have come (absent: 30s)"},
            {.name = "timestamp",
             .type = &settings_as_expr,
             AT(order, timestamp),
             .help = "where the time is: RFC 3339, or a number since 1970 (s, "
                     "ms or µs, by its size)"},
            {.name = "window",
             .type = &conf_as_duration,
             AT(order, window_ms),
             .min = 1,
             .max = DAY_MS,
             .help = "by: timestamp: how long an event is held for earlier "
                     "ones (absent: 2s)"},
            {.name = "observe",
             .type = &conf_as_bool,
             AT(order, observe),
             .fallback = "false",
             .help = "hold nothing, and only record what would have been held "
                     "and which gaps are seen"},
            {.name = "backfill",
             .type = &conf_as_text,
             AT(order, backfill),
             .check = wrong_url_template,
             .form = "URL with `{source}` `{workspace}` `{type}` `{from}` "
                     "`{to}` `{gap}`",
             .help = "called (POST) when a gap opens, to have what is missing "
                     "sent again; not for a workspace or type such as `..`, "
                     "which would change the path, unless it is behind a ?"},
            {.name = "signing_secrets",
             .type = &conf_as_texts,
             AT(order, signing_secrets),
             .check = wrong_signing_secret,
             .flags = CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "`whsec_…`: those calls are signed like a webhook"},
            {.name = "allow_private",
             .type = &settings_as_order_private,
             .offset = 0,
             .fallback = "false",
             .help = "whether those calls may go to loopback and private "
                     "addresses: to all, none, or these networks"},
            {0},
        },
};

const struct conf_section settings_states_section = {
    .name = "states",
    .help = "An object's events are moves of its state: only valid moves are "
            "delivered, whatever order they come in. The others are recorded "
            "as `ignored`.",
    .keys =
        (const struct conf_key[]){
            {.name = "object",
             .type = &settings_as_expr,
             AT(state_rules, object),
             .flags = CONF_REQUIRED,
             .help = "which object an event is about; objects of one "
                     "workspace are told apart by it"},
            {.name = "state",
             .type = &settings_as_expr,
             AT(state_rules, state),
             .flags = CONF_REQUIRED,
             .help = "the state that it moves to"},
            {.name = "initial",
             .type = &conf_as_texts,
             AT(state_rules, initial),
             .check = wrong_line,
             .flags = CONF_REQUIRED | CONF_FILLED,
             .form = "list of states",
             .help = "in which an object may begin"},
            {.name = "moves",
             .type = &conf_as_texts,
             AT(state_rules, moves),
             .check = wrong_move,
             .flags = CONF_REQUIRED | CONF_FILLED,
             .form = "list of `from>to`",
             .help = "which moves there are"},
            {.name = "on_invalid",
             .type = &conf_as_either,
             AT(state_rules, invalid_is_dead),
             .choices = invalid_words,
             .fallback = "ignore",
             .help = "whether another move is also a dead letter "
                     "(`invalid_transition`), which a person can force"},
            {0},
        },
};
