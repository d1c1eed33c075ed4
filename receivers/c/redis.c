/* redis.c: the store in Redis, which claims an event, lets you work, and then stores it.
 *
 * Keys have one prefix with braces, so that a cluster keeps them together. The libraries of
 * other languages have the same keys:
 *
 *   PREFIX:id:ID                   "done", or the token of a claim
 *   PREFIX:series:WORKSPACE        the set of its series
 *   PREFIX:state:SERIES:WORKSPACE  hash: floor, announced
 *   PREFIX:numbers:…               sorted set of numbers, by number
 *   PREFIX:ids:…                   hash: number → id
 *   PREFIX:times:…                 sorted set of numbers, by time
 *   PREFIX:missing:…               hash: number → since
 *   PREFIX:spaces                  the set of SERIES:WORKSPACE
 *
 * They expire when nothing has arrived for keep_s. */
#include "internal.h"
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUES_MAX = 12,
    CLAIM_VALUES = 10,   /* in the reply of claim_script */
    FORGET_COUNT = 1000, /* what forget_script takes at once */
};

/* clang-format off: Lua has its own lines. */
static const char claim_script[] =
    "local p, id, token, lease, series, workspace, sequence, previous = "
    "unpack(ARGV)\n"
    "local new = redis.call('SET', p..':id:'..id, token, 'NX', 'EX', lease)\n"
    "if not new and redis.call('GET', p..':id:'..id) ~= 'done' then return "
    "{'busy'} end\n"
    "local out = {new and 'new' or 'done'}\n"
    "if series == '' then return out end\n"
    "local here = series..':'..workspace\n"
    "local state = redis.call('HMGET', p..':state:'..here, 'floor', "
    "'announced')\n"
    "local numbers = p..':numbers:'..here\n"
    "local top = redis.call('ZREVRANGE', numbers, 0, 0)\n"
    "local below = redis.call('ZREVRANGEBYSCORE', numbers, '('..previous, "
    "'-inf', 'LIMIT', 0, 1)\n"
    "local earlier, other = '', ''\n"
    "for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do\n"
    "  if s ~= series then\n"
    "    if redis.call('HGET', p..':state:'..s..':'..workspace, 'floor') then "
    "earlier = '1' end\n"
    "    if redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, previous) "
    "then other = '1' end\n"
    "  end\n"
    "end\n"
    "local holder = redis.call('HGET', p..':ids:'..here, sequence)\n"
    "for _, v in ipairs({state[1] or '', state[2] or '', earlier, holder or "
    "'', top[1] or '',\n"
    "    redis.call('ZSCORE', numbers, previous) and '1' or '', below[1] or "
    "'',\n"
    "    redis.call('HEXISTS', p..':missing:'..here, sequence) == 1 and '1' or "
    "'', other}) do\n"
    "  table.insert(out, v)\n"
    "end\n"
    "return out\n";

static const char finish_script[] =
    "local p, id, now, keep, series, workspace, sequence, previous, floor, "
    "announced = unpack(ARGV)\n"
    "redis.call('SET', p..':id:'..id, 'done', 'EX', keep)\n"
    "if series == '' then return 0 end\n"
    "local here = series..':'..workspace\n"
    "local state, numbers, ids = p..':state:'..here, p..':numbers:'..here, "
    "p..':ids:'..here\n"
    "local times, missing = p..':times:'..here, p..':missing:'..here\n"
    "if floor ~= '' then redis.call('HSETNX', state, 'floor', floor) end\n"
    "if announced == '1' then redis.call('HSET', state, 'announced', 1) end\n"
    "redis.call('HSETNX', state, 'known', 1)\n"
    "if redis.call('HSETNX', ids, sequence, id) == 1 then\n"
    "  redis.call('ZADD', numbers, sequence, sequence)\n"
    "  redis.call('ZADD', times, now, sequence)\n"
    "end\n"
    "redis.call('HDEL', missing, sequence)\n"
    "floor = tonumber(redis.call('HGET', state, 'floor') or '')\n"
    "if floor and tonumber(previous) > floor and not redis.call('ZSCORE', "
    "numbers, previous) then\n"
    "  redis.call('HSETNX', missing, previous, now)\n"
    "end\n"
    "redis.call('SADD', p..':spaces', here)\n"
    "redis.call('SADD', p..':series:'..workspace, series)\n"
    "for _, key in ipairs({state, numbers, ids, times, missing, "
    "p..':series:'..workspace}) do\n"
    "  redis.call('EXPIRE', key, keep)\n"
    "end\n"
    "return 0\n";

static const char release_script[] =
    "local key = ARGV[1]..':id:'..ARGV[2]\n"
    "if redis.call('GET', key) == ARGV[3] then redis.call('DEL', key) end\n"
    "return 0\n";

static const char missing_script[] =
    "local p, before, series, workspace = unpack(ARGV)\n"
    "local found = redis.call('HGETALL', "
    "p..':missing:'..series..':'..workspace)\n"
    "local out = {}\n"
    "for i = 1, #found, 2 do\n"
    "  if tonumber(found[i + 1]) <= tonumber(before) then\n"
    "    local other = ''\n"
    "    for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) "
    "do\n"
    "      if s ~= series and redis.call('ZSCORE', "
    "p..':numbers:'..s..':'..workspace, found[i]) then\n"
    "        other = '1'\n"
    "      end\n"
    "    end\n"
    "    table.insert(out, found[i])\n"
    "    table.insert(out, found[i + 1])\n"
    "    table.insert(out, other)\n"
    "  end\n"
    "end\n"
    "return out\n";

static const char forget_script[] =
    "local p, before, series, workspace = unpack(ARGV)\n"
    "local here = series..':'..workspace\n"
    "local state, numbers, times = p..':state:'..here, p..':numbers:'..here, "
    "p..':times:'..here\n"
    "if redis.call('EXISTS', state) == 0 then redis.call('SREM', p..':spaces', "
    "here) return 0 end\n"
    "local old = redis.call('ZRANGEBYSCORE', times, '-inf', '('..before, "
    "'LIMIT', 0, 1000)\n"
    "local floor = tonumber(redis.call('HGET', state, 'floor') or '')\n"
    "for _, n in ipairs(old) do\n"
    "  redis.call('ZREM', numbers, n)\n"
    "  redis.call('ZREM', times, n)\n"
    "  redis.call('HDEL', p..':ids:'..here, n)\n"
    "  if floor and tonumber(n) > floor then\n"
    "    floor = tonumber(n)\n"
    "    redis.call('HSET', state, 'floor', n)\n"
    "  end\n"
    "end\n"
    "if #old > 0 and floor then\n"
    "  for _, n in ipairs(redis.call('HKEYS', p..':missing:'..here)) do\n"
    "    if tonumber(n) <= floor then redis.call('HDEL', p..':missing:'..here, "
    "n) end\n"
    "  end\n"
    "end\n"
    "return #old\n";

static const char spaces_script[] =
    "return redis.call('SMEMBERS', ARGV[1]..':spaces')";
/* clang-format on */

struct store {
    struct grapnel_store base;
    struct grapnel_redis_options options;
    struct grapnel_pool pool;
    char *prefix, *spaces_key;
};

/* The arguments of a script, after the prefix. Numbers become text in `numbers`. */
struct values {
    const char *items[VALUES_MAX];
    char numbers[VALUES_MAX][24];
    int count;
};

static void add_text(struct values *v, const char *text)
{
    v->items[v->count++] = text;
}

static void add_number(struct values *v, int64_t n)
{
    snprintf(v->numbers[v->count], sizeof v->numbers[0], "%lld", (long long)n);
    add_text(v, v->numbers[v->count]);
}

/* The series and the numbers of an event; empty if they do not matter. */
static void add_event(struct values *v, const struct grapnel_arrival *a)
{
    const struct grapnel_event *e = a->event;

    if (!a->numbered) {
        for (int i = 0; i < 4; i++)
            add_text(v, "");
        return;
    }
    add_text(v, e->series);
    add_text(v, e->workspace);
    add_number(v, e->sequence);
    add_number(v, e->previous);
}

static redisContext *opened(struct store *s, struct grapnel_error *error)
{
    redisContext *context = s->options.connect(s->options.arg);

    if (context && !context->err)
        return context;
    grapnel_say(error, GRAPNEL_FAILED, "Redis: cannot connect: %s",
                context ? context->errstr : "connect() returned NULL");
    if (context)
        redisFree(context);
    return NULL;
}

/* NULL: the connection is broken. hiredis writes to a connection that the server has closed, which
 * raises SIGPIPE; it must not end the program. */
static redisReply *ask(redisContext *context, const struct store *s,
                       const char *script, const struct values *v)
{
    /* The key tells a cluster which node has all of them. */
    const char *words[VALUES_MAX + 5] = {"EVAL", script, "1", s->spaces_key,
                                         s->prefix};
    sigset_t pipe, before, pending;
    redisReply *reply;
    bool was_pending;
    int got;

    for (int i = 0; i < v->count; i++)
        words[5 + i] = v->items[i];
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    reply = redisCommandArgv(context, 5 + v->count, words, NULL);
    sigpending(&pending);
    if (!was_pending && sigismember(&pending, SIGPIPE) == 1)
        sigwait(&pipe, &got);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reply;
}

/* Runs a script. A connection that the server has closed meanwhile is replaced once. If the script
 * had run before that, a second claim finds the first one and is GRAPNEL_BUSY until it ends; the
 * others may run twice. NULL: it failed. The caller frees the reply. */
static redisReply *eval(struct store *s, const char *script,
                        const struct values *v, int type,
                        struct grapnel_error *error)
{
    redisContext *context = grapnel_pool_take(&s->pool);
    redisReply *reply = context ? ask(context, s, script, v) : NULL;

    if (!reply) {
        if (context)
            redisFree(context);
        context = opened(s, error);
        reply = context ? ask(context, s, script, v) : NULL;
        if (context && !reply) {
            grapnel_say(error, GRAPNEL_FAILED, "Redis: %s", context->errstr);
            redisFree(context);
            context = NULL;
        }
    }
    grapnel_pool_give(&s->pool, context);
    if (reply && reply->type != type) {
        if (reply->type == REDIS_REPLY_ERROR)
            grapnel_say(error, GRAPNEL_FAILED, "Redis: %s", reply->str);
        else
            grapnel_say(error, GRAPNEL_FAILED,
                        "Redis: the reply has the type %d instead of %d",
                        reply->type, type);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

static redisReply *list(struct store *s, const char *script,
                        const struct values *v, struct grapnel_error *error)
{
    return eval(s, script, v, REDIS_REPLY_ARRAY, error);
}

/* "" if it is something else. */
static const char *text_at(const redisReply *reply, size_t i)
{
    const redisReply *entry = reply->element[i];

    return entry->type == REDIS_REPLY_STRING ? entry->str : "";
}

static int64_t number_at(const redisReply *reply, size_t i)
{
    int64_t n = 0; /* the script wrote it, or "" */

    grapnel_number(text_at(reply, i), strlen(text_at(reply, i)), &n);
    return n;
}

static bool flag_at(const redisReply *reply, size_t i)
{
    return strcmp(text_at(reply, i), "1") == 0;
}

static void read_facts(const redisReply *reply, struct grapnel_facts *f)
{
    *f = (struct grapnel_facts){.has_floor = text_at(reply, 1)[0]};
    f->floor = number_at(reply, 1);
    f->announced = flag_at(reply, 2);
    f->earlier = flag_at(reply, 3);
    grapnel_copy(f->holder, sizeof f->holder, text_at(reply, 4));
    f->highest = number_at(reply, 5);
    f->has_previous = flag_at(reply, 6);
    f->below = number_at(reply, 7);
    f->named = flag_at(reply, 8);
    f->in_other = flag_at(reply, 9);
}

static enum grapnel_status claim(struct grapnel_store *store,
                                 const struct grapnel_arrival *a,
                                 const char *token, bool *first,
                                 struct grapnel_facts *facts,
                                 struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    enum grapnel_status status = GRAPNEL_DONE;
    struct values v = {.count = 0};
    redisReply *reply;

    add_text(&v, a->event->id);
    add_text(&v, token);
    add_number(&v, s->options.lease_s);
    add_event(&v, a);
    reply = list(s, claim_script, &v, error);
    if (!reply)
        return GRAPNEL_FAILED;
    *first = reply->elements && strcmp(text_at(reply, 0), "new") == 0;
    if (reply->elements && strcmp(text_at(reply, 0), "busy") == 0)
        status = grapnel_say(error, GRAPNEL_BUSY,
                             "the event is being processed");
    else if (reply->elements != (a->numbered ? CLAIM_VALUES : 1))
        status = grapnel_say(error, GRAPNEL_FAILED,
                             "Redis: the reply has %zu values instead of %d",
                             reply->elements, a->numbered ? CLAIM_VALUES : 1);
    else if (a->numbered)
        read_facts(reply, facts);
    freeReplyObject(reply);
    return status;
}

static void release(struct grapnel_store *store,
                    const struct grapnel_arrival *a, const char *token)
{
    struct values v = {.count = 0};
    redisReply *reply;

    add_text(&v, a->event->id);
    add_text(&v, token);
    reply = eval((struct store *)store, release_script, &v, REDIS_REPLY_INTEGER,
                 NULL);
    if (reply)
        freeReplyObject(reply);
}

static enum grapnel_status finish(struct grapnel_store *store,
                                  const struct grapnel_arrival *a,
                                  const struct grapnel_state *state,
                                  struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    struct values v = {.count = 0};
    redisReply *reply;

    add_text(&v, a->event->id);
    add_number(&v, a->now_s);
    add_number(&v, s->options.keep_s);
    add_event(&v, a);
    if (state && state->has_floor)
        add_number(&v, state->floor);
    else
        add_text(&v, "");
    add_number(&v, state && state->announced);
    reply = eval(s, finish_script, &v, REDIS_REPLY_INTEGER, error);
    if (!reply)
        return GRAPNEL_FAILED;
    freeReplyObject(reply);
    return GRAPNEL_DONE;
}

static enum grapnel_status process(struct grapnel_store *store,
                                   const struct grapnel_arrival *a,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error)
{
    static const struct grapnel_claims claims = {claim, release, finish};

    return grapnel_process_claimed(store, &claims, a, handle, arg, check,
                                   error);
}

/* Calls `each` for every series of every workspace until one fails. */
static enum grapnel_status
for_spaces(struct store *s,
           enum grapnel_status (*each)(struct store *s, const char *series,
                                       const char *workspace, int64_t before_s,
                                       struct grapnel_missing_list *list,
                                       struct grapnel_error *error),
           int64_t before_s, struct grapnel_missing_list *found,
           struct grapnel_error *error)
{
    const struct values nothing = {.count = 0};
    enum grapnel_status status = GRAPNEL_DONE;
    redisReply *reply = list(s, spaces_script, &nothing, error);

    if (!reply)
        return GRAPNEL_FAILED;
    for (size_t i = 0; !status && i < reply->elements; i++) {
        redisReply *entry = reply->element[i];
        char *colon = entry->type == REDIS_REPLY_STRING
                          ? strchr(entry->str, ':')
                          : NULL;

        if (!colon)
            continue;
        *colon = 0;
        status = each(s, entry->str, colon + 1, before_s, found, error);
    }
    freeReplyObject(reply);
    return status;
}

static enum grapnel_status missing_in(struct store *s, const char *series,
                                      const char *workspace, int64_t before_s,
                                      struct grapnel_missing_list *found,
                                      struct grapnel_error *error)
{
    enum grapnel_status status = GRAPNEL_DONE;
    struct values v = {.count = 0};
    redisReply *reply;

    add_number(&v, before_s);
    add_text(&v, series);
    add_text(&v, workspace);
    reply = list(s, missing_script, &v, error);
    if (!reply)
        return GRAPNEL_FAILED;
    for (size_t i = 0; !status && i + 2 < reply->elements; i += 3) {
        if (!grapnel_missing_add(found, series, workspace, number_at(reply, i),
                                 number_at(reply, i + 1),
                                 flag_at(reply, i + 2)))
            status = grapnel_say_memory(error);
    }
    freeReplyObject(reply);
    return status;
}

static enum grapnel_status missing(struct grapnel_store *store,
                                   int64_t before_s,
                                   struct grapnel_missing_list *found,
                                   struct grapnel_error *error)
{
    enum grapnel_status status = for_spaces((struct store *)store, missing_in,
                                            before_s, found, error);

    grapnel_missing_sort(found);
    return status;
}

static enum grapnel_status forget_in(struct store *s, const char *series,
                                     const char *workspace, int64_t before_s,
                                     struct grapnel_missing_list *found,
                                     struct grapnel_error *error)
{
    struct values v = {.count = 0};
    long long count;

    (void)found;
    add_number(&v, before_s);
    add_text(&v, series);
    add_text(&v, workspace);
    do {
        redisReply *reply = eval(s, forget_script, &v, REDIS_REPLY_INTEGER,
                                 error);

        if (!reply)
            return GRAPNEL_FAILED;
        count = reply->integer;
        freeReplyObject(reply);
    } while (count == FORGET_COUNT);
    return GRAPNEL_DONE;
}

/* Ids expire by themselves. */
static enum grapnel_status forget(struct grapnel_store *store, int64_t before_s,
                                  struct grapnel_error *error)
{
    return for_spaces((struct store *)store, forget_in, before_s, NULL, error);
}

static void close_connection(void *connection)
{
    redisFree(connection);
}

static void free_store(struct grapnel_store *store)
{
    struct store *s = (struct store *)store;

    grapnel_pool_end(&s->pool, close_connection);
    free(s->prefix);
    free(s->spaces_key);
    free(s);
}

static const struct grapnel_store_methods methods = {process, NULL, missing,
                                                     forget,  NULL, free_store};

static struct store *allocated(const char *prefix, size_t connections_max)
{
    struct store *s = calloc(1, sizeof *s);
    size_t n = strlen(prefix) + sizeof ":spaces";

    if (!s)
        return NULL;
    s->prefix = strdup(prefix);
    s->spaces_key = malloc(n);
    if (s->prefix && s->spaces_key) {
        snprintf(s->spaces_key, n, "%s:spaces", prefix);
        if (grapnel_pool_begin(&s->pool, connections_max))
            return s;
    }
    free(s->prefix);
    free(s->spaces_key);
    free(s);
    return NULL;
}

struct grapnel_store *
grapnel_redis_store_new(const struct grapnel_redis_options *options,
                        struct grapnel_error *error)
{
    struct store *s;

    if (!options->connect || options->connections_max < 1 ||
        options->connections_max > 1000) {
        grapnel_say(error, GRAPNEL_INVALID,
                    "a Redis store has a connect function, and 1 to 1000 "
                    "connections; this one would have %zu",
                    options->connections_max);
        return NULL;
    }
    s = allocated(options->prefix ? options->prefix : "{grapnel}",
                  options->connections_max);
    if (!s) {
        grapnel_say_memory(error);
        return NULL;
    }
    s->base.methods = &methods;
    s->options = *options;
    if (s->options.keep_s <= 0)
        s->options.keep_s = GRAPNEL_KEEP_S;
    if (s->options.lease_s <= 0)
        s->options.lease_s = GRAPNEL_LEASE_S;
    return &s->base;
}
