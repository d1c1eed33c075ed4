/* live: the ring and the streams. */
#include "live.h"
#include "clock.h"
#include "commands.h"
#include "live_feed.h"
#include "log.h"
#include "loop.h"
#include "process_client.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAMS_MAX = 100,
    OF_TOKEN_MAX = 10,
    OF_TENANTS_MAX = 50, /* operators get the others */
    BUFFER_MAX_BYTES = 64 * 1024,
    LINES_MAX_BYTES = 4096, /* beside items */
    RING_MAX_ITEMS = 2000,
    RING_MAX_BYTES = 2 * 1024 * 1024,
    ITEM_MAX_BYTES = 32 * 1024,
    CHECK_MS = 1000,
    REPLY_MS = 5000,
    ALIVE_MS = 15 * 1000,
    /* The processes are still asked so long after the last stream has ended, so that its client can
     * resume. */
    LINGER_MS = 30 * 1000,
};

struct ring_item {
    unsigned kind;
    char *workspace, *endpoint, *source, *tenant;
    char *text;        /* as it is sent */
    char *tenant_text; /* to tokens of `tenant`; NULL: the same */
    size_t bytes;      /* of `text`, which is the longer one */
};

struct live_stream {
    TAILQ_ENTRY(live_stream) link;
    struct live *live;
    struct web_request *web;
    unsigned kinds;
    char *workspace, *endpoint, *source, *tenant;
    char owner[sizeof((struct api_actor *)0)->owner];
    char digest[TOKEN_DIGEST_BYTES +
                1]; /* "": the token is in the configuration */
    uint64_t next;  /* the item of the ring that comes next into `unread` */
    struct buf unread;
    size_t read;     /* of it */
    int64_t sent_ms; /* mono: when something was put into it */
    int64_t end_ms;  /* mono; 0: never */
    bool ended, cut; /* after the rest of `unread`; at once */
    struct process_question check;
    bool checking;
    int64_t check_ms;
};

struct live {
    struct process_client *processes;
    struct live_feed *feed;
    TAILQ_HEAD(, live_stream) streams;
    int count;
    struct ring_item
        *ring[RING_MAX_ITEMS]; /* item n is at n % RING_MAX_ITEMS */
    size_t ring_bytes;
    uint64_t first, next; /* the numbers of the oldest and of the next item */
    char ring_id[24];
    unsigned lingering; /* kinds that were listened to … */
    int64_t left_ms;    /* … until then; mono */
    int64_t mono_ms, look_ms;
    bool put; /* a stream has something to send */
};

struct live *live_open(const char *run_dir)
{
    struct live *l = gr_alloc(sizeof *l);

    l->processes = process_client_open(run_dir);
    l->feed = live_feed_open(l, l->processes, run_dir);
    TAILQ_INIT(&l->streams);
    l->first = l->next = 1;
    l->mono_ms = mono_ms();
    snprintf(l->ring_id, sizeof l->ring_id, "%" PRIx64, (uint64_t)now_ms());
    return l;
}

static void item_free(struct ring_item *i)
{
    free(i->workspace);
    free(i->endpoint);
    free(i->source);
    free(i->tenant);
    free(i->tenant_text);
    free(i->text);
    free(i);
}

static void drop_oldest(struct live *l)
{
    struct ring_item *i = l->ring[l->first++ % RING_MAX_ITEMS];

    l->ring_bytes -= i->bytes;
    item_free(i);
}

void live_close(struct live *l)
{
    if (!l)
        return;
    while (l->first < l->next)
        drop_oldest(l);
    live_feed_close(l->feed);
    process_client_close(l->processes);
    free(l);
}

int live_fd(const struct live *l)
{
    return process_client_fd(l->processes);
}

/* ---- one stream ---- */

static bool same(const char *wanted, const char *is)
{
    return !wanted || (is && strcmp(wanted, is) == 0);
}

static bool passes(const struct live_stream *s, const struct ring_item *i)
{
    if (s->tenant && (!i->tenant || strcmp(s->tenant, i->tenant) != 0))
        return false;
    return s->kinds & i->kind && same(s->workspace, i->workspace) &&
           same(s->endpoint, i->endpoint) && same(s->source, i->source);
}

static void cut(struct live_stream *s)
{
    if (s->cut)
        return;
    s->cut = s->live->put = true;
    web_cut(s->web);
}

static void put_text(struct live_stream *s, const char *text, size_t n)
{
    size_t left = s->unread.len - s->read;

    if (s->ended || s->cut)
        return;
    if (s->read) {
        memmove(s->unread.data, s->unread.data + s->read, left);
        s->unread.len = left;
        s->read = 0;
    }
    buf_put(&s->unread, text, n);
    s->sent_ms = s->live->mono_ms;
    s->live->put = true;
    if (s->unread.failed)
        cut(s);
    else
        web_continue(s->web);
}

/* Puts items of the ring as far as there is space. A client that reads so slowly that the ring has
 * dropped what it needs is cut. */
static void fill(struct live_stream *s)
{
    struct live *l = s->live;

    for (; s->next < l->next && !s->ended && !s->cut; s->next++) {
        const struct ring_item *i = l->ring[s->next % RING_MAX_ITEMS];

        if (s->next < l->first) {
            cut(s);
            return;
        }
        if (!passes(s, i))
            continue;
        if (s->unread.len - s->read + i->bytes > BUFFER_MAX_BYTES)
            return;
        if (s->tenant && i->tenant_text)
            put_text(s, i->tenant_text, strlen(i->tenant_text));
        else
            put_text(s, i->text, i->bytes);
    }
}

GR_PRINTF(2, 3)
static void put_line(struct live_stream *s, const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_text(s, text, strlen(text));
}

static void end_stream(struct live_stream *s, const char *reason)
{
    put_line(s, "event: end\ndata: {\"reason\":\"%s\"}\n\n", reason);
    s->ended = true;
}

int64_t live_read(struct live_stream *s, char *to, size_t max)
{
    size_t n;

    if (s->unread.len == s->read)
        fill(s);
    n = s->unread.len - s->read;
    if (s->cut)
        return WEB_STREAM_BROKEN;
    if (!n)
        return s->ended ? WEB_STREAM_END : 0;
    n = n < max ? n : max;
    memcpy(to, s->unread.data + s->read, n);
    s->read += n;
    return (int64_t)n;
}

/* The number of the item after `last_id`; 0: the ring does not have it. */
static uint64_t after(const struct live *l, const char *last_id)
{
    size_t n = strlen(l->ring_id);
    uint64_t last;
    char *end;

    if (strncmp(last_id, l->ring_id, n) != 0 || last_id[n] != '-')
        return 0;
    last = strtoull(last_id + n + 1, &end, 10);
    return !*end && last < l->next && last + 1 >= l->first ? last + 1 : 0;
}

static char *copy_of(const char *text)
{
    return text ? gr_strdup(text) : NULL;
}

enum live_refusal live_join(struct live *l, struct web_request *web,
                            const struct live_filter *filter,
                            const struct api_actor *actor, const char *digest,
                            const char *last_id, int64_t seconds,
                            struct live_stream **out)
{
    struct live_stream *s;
    int of_token = 0, of_tenant = 0, of_tenants = 0;

    TAILQ_FOREACH(s, &l->streams, link)
    {
        of_token += strcmp(s->owner, actor->owner) == 0;
        of_tenants += s->tenant != NULL;
        of_tenant += filter->tenant && s->tenant &&
                     strcmp(s->tenant, filter->tenant) == 0;
    }
    if (filter->tenant && of_tenant >= filter->tenant_max)
        return LIVE_TENANT_FULL;
    if (filter->tenant && of_tenants >= OF_TENANTS_MAX)
        return LIVE_FULL;
    if (l->count >= STREAMS_MAX || of_token >= OF_TOKEN_MAX)
        return l->count >= STREAMS_MAX ? LIVE_FULL : LIVE_TOKEN_FULL;
    l->mono_ms = mono_ms();
    *out = s = gr_alloc(sizeof *s);
    s->live = l;
    s->web = web;
    s->kinds = filter->kinds;
    s->workspace = copy_of(filter->workspace);
    s->endpoint = copy_of(filter->endpoint);
    s->source = copy_of(filter->source);
    s->tenant = copy_of(filter->tenant);
    snprintf(s->owner, sizeof s->owner, "%s", actor->owner);
    snprintf(s->digest, sizeof s->digest, "%s", digest);
    s->check.self = s;
    s->check_ms = l->mono_ms + CHECK_MS;
    s->end_ms = seconds ? l->mono_ms + seconds * SECOND_MS : 0;
    buf_init(&s->unread, BUFFER_MAX_BYTES + LINES_MAX_BYTES);
    TAILQ_INSERT_TAIL(&l->streams, s, link);
    l->count++;
    put_line(s, "retry: 2000\n\n");
    s->next = last_id ? after(l, last_id) : l->next;
    if (!s->next) {
        put_line(s, "id: %s-%" PRIu64 "\nevent: reset\ndata: {}\n\n",
                 l->ring_id, l->next - 1);
        s->next = l->next;
    }
    fill(s);
    return LIVE_JOINED;
}

void live_leave(struct live_stream *s)
{
    struct live *l = s->live;

    if (s->checking)
        process_client_cancel(l->processes, &s->check);
    l->lingering = live_kinds(l);
    l->left_ms = l->mono_ms;
    TAILQ_REMOVE(&l->streams, s, link);
    l->count--;
    buf_fini(&s->unread);
    free(s->workspace);
    free(s->endpoint);
    free(s->source);
    free(s->tenant);
    free(s);
}

/* ---- items ---- */

static const char *kind_name(enum live_kind kind)
{
    return kind == LIVE_EVENT     ? "event"
           : kind == LIVE_ATTEMPT ? "attempt"
                                  : "alert";
}

static void put_item(struct live *l, struct ring_item *i)
{
    struct live_stream *s;

    while (l->next - l->first >= RING_MAX_ITEMS ||
           (l->first < l->next && l->ring_bytes > RING_MAX_BYTES - i->bytes))
        drop_oldest(l);
    l->ring[l->next++ % RING_MAX_ITEMS] = i;
    l->ring_bytes += i->bytes;
    TAILQ_FOREACH(s, &l->streams, link) fill(s);
}

static char *text_of(const struct live *l, enum live_kind kind,
                     const char *data)
{
    return gr_printf("id: %s-%" PRIu64 "\nevent: %s\ndata: %s\n\n", l->ring_id,
                     l->next, kind_name(kind), data);
}

void live_put(struct live *l, const struct live_item *item)
{
    struct ring_item *i;
    char *data, *other;

    if (!(live_kinds(l) & item->kind))
        return;
    data = json_dumps(item->data, JSON_COMPACT); /* without a newline */
    if (!data || strlen(data) > ITEM_MAX_BYTES) {
        free(data);
        live_skipped(l, item->kind);
        return;
    }
    i = gr_alloc(sizeof *i);
    i->kind = item->kind;
    i->workspace = copy_of(item->workspace);
    i->endpoint = copy_of(item->endpoint);
    i->source = copy_of(item->source);
    i->tenant = copy_of(item->tenant);
    i->text = text_of(l, item->kind, data);
    i->bytes = strlen(i->text);
    if (item->tenant && item->tenant_data) {
        other = json_dumps(item->tenant_data, JSON_COMPACT);
        i->tenant_text = text_of(l, item->kind, other);
        free(other);
    }
    free(data);
    put_item(l, i);
}

void live_skipped(struct live *l, enum live_kind kind)
{
    struct live_stream *s;

    TAILQ_FOREACH(s, &l->streams, link)
    if (s->kinds & kind)
        put_line(s, "event: skipped\ndata: {\"kind\":\"%s\"}\n\n",
                 kind_name(kind));
}

unsigned live_kinds(const struct live *l)
{
    unsigned kinds = l->left_ms && l->mono_ms - l->left_ms < LINGER_MS
                         ? l->lingering
                         : 0;
    const struct live_stream *s;

    TAILQ_FOREACH(s, &l->streams, link) kinds |= s->kinds;
    return kinds;
}

/* ---- tokens ---- */

void live_reload(struct live *l, const struct string_list *tokens)
{
    char digest[TOKEN_DIGEST_BYTES + 1];
    struct live_stream *s;

    TAILQ_FOREACH(s, &l->streams, link)
    {
        /* The API ends the streams of a session that a link began, and of the portal. */
        bool there = *s->digest || strncmp(s->owner, "link_", 5) == 0 ||
                     strncmp(s->owner, "portal_", 7) == 0;

        for (size_t i = 0; !there && i < tokens->count; i++) {
            token_digest(tokens->items[i], strlen(tokens->items[i]), digest);
            there = strcmp(digest, s->owner) == 0;
        }
        if (!there)
            end_stream(s, "token");
    }
}

/* One question is enough for all streams of a token. */
static void check_tokens(struct live *l)
{
    struct live_stream *s, *other;

    TAILQ_FOREACH(s, &l->streams, link)
    {
        json_t *args;

        if (!*s->digest || s->checking || s->ended || s->check_ms > l->mono_ms)
            continue;
        args = json_pack("{s:s}", "sha256", s->digest);
        s->checking = true;
        process_client_ask(l->processes, &s->check, "sequencer",
                           command_token_check.name, args, NULL, l->mono_ms,
                           REPLY_MS, false);
        json_decref(args);
        TAILQ_FOREACH(other, &l->streams, link)
        if (strcmp(other->digest, s->digest) == 0)
            other->check_ms = l->mono_ms + CHECK_MS;
    }
}

/* While the sequencer does not reply, nobody can revoke a token. */
static void take_check(struct live *l, struct process_question *q)
{
    struct live_stream *s = q->self, *other;
    struct api_actor actor;

    s->checking = false;
    if (q->end == QUESTION_REPLIED && !token_of_store(q->reply, &actor))
        TAILQ_FOREACH(other, &l->streams, link)
    if (strcmp(other->digest, s->digest) == 0 && !other->ended)
        end_stream(other, "token");
    process_question_fini(q);
}

/* ---- work ---- */

int live_work(struct live *l, int64_t mono_ms_now)
{
    struct process_question *q;
    struct live_stream *s;
    bool look = mono_ms_now >= l->look_ms;
    int wait_ms;

    l->mono_ms = mono_ms_now;
    if (look)
        l->look_ms = mono_ms_now + CHECK_MS;
    wait_ms = process_client_run(l->processes, mono_ms_now);
    while ((q = process_client_ended(l->processes)))
        if (!live_feed_take(l->feed, q))
            take_check(l, q);
    if (!live_kinds(l)) {
        l->left_ms = 0;
        live_feed_work(l->feed, 0, mono_ms_now);
        return wait_ms;
    }
    check_tokens(l);
    TAILQ_FOREACH(s, &l->streams, link)
    {
        if (look && web_client_left(s->web))
            cut(s);
        if (s->end_ms && s->end_ms <= mono_ms_now && !s->ended)
            end_stream(s, "seconds");
        else if (mono_ms_now - s->sent_ms >= ALIVE_MS)
            put_line(s, ": alive\n\n");
    }
    wait_ms = loop_sooner(wait_ms,
                          live_feed_work(l->feed, live_kinds(l), mono_ms_now));
    if (l->put) /* the next turn of web.c sends it */
        wait_ms = 0;
    l->put = false;
    return loop_sooner(wait_ms, CHECK_MS);
}
