#include "rules.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 65536

struct turn { /* how far one webhook-id has come in a rule */
    struct turn *next;
    int64_t taken;
    size_t len;
    char id[];
};

struct rule {
    char *path;
    size_t path_len;
    int prefix;
    int per_event;
    int64_t taken;
    size_t count;
    struct response *responses;
    struct turn **turns; /* BUCKETS of them, when per_event */
};

struct rules {
    size_t count;
    struct rule *list;
};

const char *const action_names[] = {"respond", "cut",       "close",
                                    "reset",   "blackhole", NULL};

static struct response plain = {
    .action = RESPOND,
    .status = 200,
    .times = 1,
    .bytes = {.at = (char[]){"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
              .len = 38},
};

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        fail("out of memory");
    return memory;
}

static const char *status_words(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 410:
        return "Gone";
    case 429:
        return "Too Many Requests";
    case 503:
        return "Service Unavailable";
    default:
        return "Told So";
    }
}

static const char *render(struct response *a, json_t *headers, const char *body)
{
    size_t promised = strlen(body) + (a->action == CUT);
    const char *name;
    json_t *value;

    text_fmt(&a->bytes, "HTTP/1.1 %d %s\r\n", a->status,
             status_words(a->status));
    json_object_foreach(headers, name, value)
    {
        size_t many = json_is_array(value) ? json_array_size(value) : 1;

        for (size_t i = 0; i < many; i++) {
            json_t *one = json_is_array(value) ? json_array_get(value, i)
                                               : value;

            if (!json_is_string(one))
                return "a header is a text or a list of strings";
            text_str(&a->bytes, name);
            text_str(&a->bytes, ": ");
            text_str(&a->bytes, json_string_value(one));
            text_str(&a->bytes, "\r\n");
        }
    }
    if (a->status != 204 && a->status != 304)
        text_fmt(&a->bytes, "Content-Length: %zu\r\n", promised);
    if (a->close)
        text_str(&a->bytes, "Connection: close\r\n");
    text_str(&a->bytes, "\r\n");
    text_str(&a->bytes, body);
    return NULL;
}

static const char *parse_response(struct response *a, json_t *json)
{
    const char *action = "respond", *body = "", *raw = NULL;
    json_t *headers = NULL;
    json_int_t delay_ms = 0, times = 1;
    int status = 200, at = 0;
    json_error_t error;

    if (json_unpack_ex(json, &error, JSON_STRICT,
                       "{s?s, s?i, s?o, s?s, s?s, s?I, s?I, s?b}", "action",
                       &action, "status", &status, "headers", &headers, "body",
                       &body, "raw", &raw, "delay_ms", &delay_ms, "times",
                       &times, "close", &a->close))
        return "a response has only action status headers body raw delay_ms "
               "times close";
    while (action_names[at] && strcmp(action_names[at], action))
        at++;
    if (!action_names[at])
        return "action is one of respond cut close reset blackhole";
    if (delay_ms < 0 || times < 1 || status < 100 || status > 999)
        return "a delay, a count or a status out of range";
    a->action = (enum action)at;
    a->delay_us = delay_ms * 1000;
    a->times = times;
    a->close = a->close || a->action == CUT || raw;
    if (a->action > CUT)
        return NULL;
    if (raw) {
        text_str(&a->bytes, raw);
        return NULL;
    }
    a->status = status;
    return render(a, headers, body);
}

static const char *parse_rule(struct rule *rule, json_t *json)
{
    const char *path, *per = "all";
    json_t *responses;
    json_error_t error;

    if (json_unpack_ex(json, &error, JSON_STRICT, "{s:s, s?s, s:o}", "path",
                       &path, "per", &per, "responses", &responses))
        return "a rule has path, responses, and perhaps per";
    if (strcmp(per, "all") && strcmp(per, "event"))
        return "per is event or all";
    if (!json_is_array(responses) || !json_array_size(responses))
        return "responses is a list of at least one";
    rule->path = strdup(path);
    rule->path_len = strlen(path);
    rule->prefix = rule->path_len && path[rule->path_len - 1] == '*';
    rule->path_len -= (size_t)rule->prefix;
    rule->per_event = per[0] == 'e';
    rule->count = json_array_size(responses);
    rule->responses = zeroed(rule->count, sizeof *rule->responses);
    if (rule->per_event)
        rule->turns = zeroed(BUCKETS, sizeof(struct turn *));
    for (size_t i = 0; i < rule->count; i++) {
        const char *wrong = parse_response(&rule->responses[i],
                                           json_array_get(responses, i));

        if (wrong)
            return wrong;
    }
    return NULL;
}

struct rules *rules_parse(const char *json, size_t len, char **reason)
{
    struct rules *rules = zeroed(1, sizeof *rules);
    const char *wrong = NULL;
    json_error_t error;
    json_t *list = json_loadb(json, len, 0, &error);

    if (!json_is_array(list))
        wrong = list ? "not a list" : error.text;
    rules->count = wrong ? 0 : json_array_size(list);
    rules->list = zeroed(rules->count, sizeof *rules->list);
    for (size_t i = 0; i < rules->count && !wrong; i++)
        wrong = parse_rule(&rules->list[i], json_array_get(list, i));
    if (wrong) {
        *reason = strdup(wrong);
        rules_free(rules);
        rules = NULL;
    }
    json_decref(list);
    return rules;
}

static void free_turns(struct rule *rule)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (rule->turns[i]) {
            struct turn *turn = rule->turns[i];

            rule->turns[i] = turn->next;
            free(turn);
        }
    }
    free(rule->turns);
}

void rules_free(struct rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 0; i < rules->count; i++) {
        struct rule *rule = &rules->list[i];

        for (size_t k = 0; rule->responses && k < rule->count; k++)
            text_fini(&rule->responses[k].bytes);
        free(rule->responses);
        free(rule->path);
        if (rule->turns)
            free_turns(rule);
    }
    free(rules->list);
    free(rules);
}

static int64_t *turn_of(struct rule *rule, const char *id, size_t id_len)
{
    uint32_t hash = 2166136261u;
    struct turn **bucket, *turn;

    for (size_t i = 0; i < id_len; i++)
        hash = (hash ^ (unsigned char)id[i]) * 16777619u;
    bucket = &rule->turns[hash % BUCKETS];
    for (turn = *bucket; turn; turn = turn->next)
        if (turn->len == id_len && !memcmp(turn->id, id, id_len))
            return &turn->taken;
    turn = zeroed(1, sizeof *turn + id_len);
    turn->len = id_len;
    memcpy(turn->id, id, id_len);
    turn->next = *bucket;
    *bucket = turn;
    return &turn->taken;
}

static int fits(const struct rule *rule, const char *path, size_t len)
{
    return (rule->prefix ? len >= rule->path_len : len == rule->path_len) &&
           !memcmp(rule->path, path, rule->path_len);
}

const struct response *rules_pick(struct rules *rules, const char *path,
                                  size_t path_len, const char *id,
                                  size_t id_len)
{
    for (size_t i = 0; rules && i < rules->count; i++) {
        struct rule *rule = &rules->list[i];
        int64_t *taken, left;
        size_t at = 0;

        if (!fits(rule, path, path_len))
            continue;
        taken = rule->per_event ? turn_of(rule, id, id_len) : &rule->taken;
        left = (*taken)++;
        while (at + 1 < rule->count && left >= rule->responses[at].times)
            left -= rule->responses[at++].times;
        return &rule->responses[at];
    }
    return &plain;
}
