#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS        256
#define STATUSES       32
#define FLUSH_US       50000
#define FLUSH_BYTES    (256 * 1024)
#define MEMORY_BYTES   (64 * 1024 * 1024)
#define LIST_MAX_BYTES (32 * 1024 * 1024)

struct kept {
    char *line;
    size_t len;
};

struct path_stats {
    struct path_stats *next;
    int64_t requests, in_flight, max_in_flight;
    struct {
        int status; /* or -1 - action */
        int64_t count;
    } responses[STATUSES];
    size_t len;
    char path[];
};

struct record {
    int fd, ends;
    struct text pending; /* for the file */
    int64_t pending_since_us;
    struct text line;
    struct kept *kept; /* request n is at kept[n % keep] */
    size_t keep;
    size_t kept_bytes;
    int64_t first, last; /* numbers in memory; last is also the counter */
    int64_t requests;
    struct path_stats *paths[BUCKETS];
};

struct record *record_open(const char *file, size_t keep, int ends)
{
    struct record *r = calloc(1, sizeof *r);

    if (!r)
        fail("out of memory");
    r->fd = -1;
    r->ends = ends;
    r->first = 1;
    r->keep = keep;
    r->kept = calloc(keep ? keep : 1, sizeof *r->kept);
    if (!r->kept)
        fail("out of memory");
    if (file) {
        r->fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (r->fd < 0)
            fail("%s: %s", file, strerror(errno));
    }
    return r;
}

static void write_pending(struct record *r)
{
    size_t done = 0;

    while (done < r->pending.len) {
        ssize_t n = write(r->fd, r->pending.at + done, r->pending.len - done);

        if (n < 0 && errno != EINTR)
            fail("record: %s", strerror(errno));
        done += n < 0 ? 0 : (size_t)n;
    }
    r->pending.len = 0;
}

int64_t record_flush(struct record *r, int64_t now_us)
{
    if (!r->pending.len)
        return -1;
    if (now_us - r->pending_since_us < FLUSH_US)
        return FLUSH_US - (now_us - r->pending_since_us);
    write_pending(r);
    return -1;
}

static void forget_first(struct record *r)
{
    struct kept *oldest = &r->kept[(size_t)r->first % r->keep];

    r->kept_bytes -= oldest->len;
    free(oldest->line);
    *oldest = (struct kept){0};
    r->first++;
}

static void keep_line(struct record *r, int64_t n)
{
    struct kept *slot;

    while (r->first < n &&
           ((size_t)(n - r->first) >= r->keep || r->kept_bytes > MEMORY_BYTES))
        forget_first(r);
    slot = &r->kept[(size_t)n % r->keep];
    slot->line = malloc(r->line.len);
    if (!slot->line)
        fail("out of memory");
    memcpy(slot->line, r->line.at, r->line.len);
    slot->len = r->line.len;
    r->kept_bytes += slot->len;
}

static void put_headers(struct text *t, const char *at, const char *end)
{
    const char *comma = "";

    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        const char *stop = eol ? eol : end;
        const char *colon = memchr(at, ':', (size_t)(stop - at));

        if (colon) {
            const char *value = colon + 1;

            while (stop > value && strchr("\r\n \t", stop[-1]))
                stop--;
            while (value < stop && (*value == ' ' || *value == '\t'))
                value++;
            text_str(t, comma);
            text_str(t, "[");
            text_json(t, at, (size_t)(colon - at));
            text_str(t, ",");
            text_json(t, value, (size_t)(stop - value));
            text_str(t, "]");
            comma = ",";
        }
        at = eol ? eol + 1 : end;
    }
}

static void render(struct text *t, int64_t n, const struct request *q,
                   const struct response *a, int from)
{
    t->len = 0;
    text_fmt(t, "{\"n\":%lld,\"at_ms\":%lld.%03lld,\"connection\":%lld,",
             (long long)n, (long long)(q->at_us / 1000),
             (long long)(q->at_us % 1000), (long long)q->connection);
    if (from)
        text_fmt(t, "\"from\":\"%s\",", q->from);
    text_str(t, "\"method\":");
    text_json(t, q->method, q->method_len);
    text_str(t, ",\"path\":");
    text_json(t, q->path, q->path_len);
    text_str(t, ",\"headers\":[");
    put_headers(t, q->headers, q->headers + q->headers_len);
    text_str(t, "],\"body\":\"");
    text_base64(t, q->body, q->body_len);
    if (a->action == RESPOND && a->status)
        text_fmt(t, "\",\"status\":%d}", a->status);
    else
        text_fmt(t, "\",\"status\":null,\"action\":\"%s\"}",
                 a->action == RESPOND ? "raw" : action_names[a->action]);
}

static void put_line(struct record *r)
{
    if (!r->pending.len)
        r->pending_since_us = mono_us();
    text_add(&r->pending, r->line.at, r->line.len);
    text_add(&r->pending, "\n", 1);
    if (r->pending.len >= FLUSH_BYTES)
        write_pending(r);
}

int64_t record_put(struct record *r, const struct request *q,
                   const struct response *a)
{
    int64_t n = ++r->last;

    r->requests++;
    if (!r->keep)
        r->first = n + 1;
    if (!r->keep && r->fd < 0)
        return n;
    render(&r->line, n, q, a, r->ends);
    if (r->keep)
        keep_line(r, n);
    if (r->fd >= 0)
        put_line(r);
    return n;
}

void record_put_end(struct record *r, int64_t n, int64_t at_us)
{
    if (!r->ends || r->fd < 0)
        return;
    r->line.len = 0;
    text_fmt(&r->line, "{\"ended\":%lld,\"at_ms\":%lld.%03lld}", (long long)n,
             (long long)(at_us / 1000), (long long)(at_us % 1000));
    put_line(r);
}

void record_list(struct record *r, int64_t since, int64_t limit,
                 struct text *out)
{
    int64_t from = since + 1 > r->first ? since + 1 : r->first;
    size_t begin = out->len;

    text_fmt(out, "{\"first\":%lld,\"last\":%lld,\"requests\":[",
             (long long)r->first, (long long)r->last);
    for (int64_t n = from; n <= r->last && n - from < limit; n++) {
        const struct kept *slot = &r->kept[(size_t)n % r->keep];

        if (out->len - begin > LIST_MAX_BYTES)
            break;
        if (n > from)
            text_add(out, ",\n", 2);
        text_add(out, slot->line, slot->len);
    }
    text_str(out, "]}\n");
}

struct path_stats *record_path(struct record *r, const char *path, size_t len)
{
    uint32_t hash = 2166136261u;
    struct path_stats *p, **bucket;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)path[i]) * 16777619u;
    bucket = &r->paths[hash % BUCKETS];
    for (p = *bucket; p; p = p->next)
        if (p->len == len && !memcmp(p->path, path, len))
            return p;
    p = calloc(1, sizeof *p + len);
    if (!p)
        fail("out of memory");
    p->len = len;
    memcpy(p->path, path, len);
    p->next = *bucket;
    *bucket = p;
    return p;
}

static void count_response(struct path_stats *p, const struct response *a)
{
    int key = a->action == RESPOND ? a->status : -1 - (int)a->action;

    for (int i = 0; i < STATUSES; i++) {
        if (!p->responses[i].count)
            p->responses[i].status = key;
        if (p->responses[i].status == key) {
            p->responses[i].count++;
            return;
        }
    }
}

void record_begin(struct path_stats *p, const struct response *a)
{
    p->requests++;
    count_response(p, a);
    if (++p->in_flight > p->max_in_flight)
        p->max_in_flight = p->in_flight;
}

void record_end(struct path_stats *p)
{
    p->in_flight--;
}

static void put_path(struct text *out, const struct path_stats *p)
{
    const char *comma = "";

    text_json(out, p->path, p->len);
    text_fmt(out,
             ":{\"requests\":%lld,\"in_flight\":%lld,"
             "\"max_in_flight\":%lld,\"statuses\":{",
             (long long)p->requests, (long long)p->in_flight,
             (long long)p->max_in_flight);
    for (int i = 0; i < STATUSES && p->responses[i].count; i++) {
        int status = p->responses[i].status;

        text_str(out, comma);
        if (status > 0)
            text_fmt(out, "\"%d\":", status);
        else
            text_fmt(out,
                     "\"%s\":", status ? action_names[-1 - status] : "raw");
        text_fmt(out, "%lld", (long long)p->responses[i].count);
        comma = ",";
    }
    text_str(out, "}}");
}

void record_stats(struct record *r, struct text *out)
{
    const char *comma = "";

    text_fmt(out, "{\"requests\":%lld,\"last\":%lld,\"paths\":{",
             (long long)r->requests, (long long)r->last);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct path_stats *p = r->paths[i]; p; p = p->next) {
            if (!p->requests && !p->in_flight)
                continue;
            text_str(out, comma);
            put_path(out, p);
            comma = ",";
        }
    }
    text_str(out, "}");
}

void record_reset(struct record *r)
{
    while (r->keep && r->first <= r->last)
        forget_first(r);
    r->first = r->last + 1;
    r->requests = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct path_stats *p = r->paths[i]; p; p = p->next) {
            p->requests = 0;
            p->max_in_flight = p->in_flight;
            memset(p->responses, 0, sizeof p->responses);
        }
    }
}

void record_close(struct record *r)
{
    if (r->fd >= 0) {
        write_pending(r);
        close(r->fd);
    }
    while (r->keep && r->first <= r->last)
        forget_first(r);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (r->paths[i]) {
            struct path_stats *p = r->paths[i];

            r->paths[i] = p->next;
            free(p);
        }
    }
    text_fini(&r->pending);
    text_fini(&r->line);
    free(r->kept);
    free(r);
}
