/* lines: judges the lines of a batch, and prints the response line by line. */
#include "lines.h"
#include "event_types.h"
#include "json_text.h"
#include <stdlib.h>
#include <string.h>

enum {
    WRONG_MAX_BYTES = 1024,
    WRONGS_MAX_BYTES = LINES_MAX_COUNT * WRONG_MAX_BYTES,
    RESULT_BYTES = 80, /* an accepted line's, in the response, at most */
};

/* ---- errors as JSON ---- */

/* {"error":{"code","message","line","field","path","rule"}}: what is known of it. `schema` may be
 * NULL. */
static void put_error(struct buf *out, enum response a, size_t number,
                      const char *field, const char *why,
                      const struct event_types_wrong *schema)
{
    const char *colon = *field ? ": " : *why ? " " : "";
    char *message = gr_printf("%s%s%s", *field ? field : "the body", colon,
                              why);
    json_t *e = json_pack("{s:s,s:o}", "code", response_facts(a)->code,
                          "message", json_text_of(message));
    char *text;

    if (number)
        json_object_set_new(e, "line", json_integer((json_int_t)number));
    if (*field)
        json_object_set_new(e, "field", json_string(field));
    if (schema && *schema->path)
        json_object_set_new(e, "path", json_text_of(schema->path));
    if (schema && *schema->rule)
        json_object_set_new(e, "rule", json_string(schema->rule));
    free(message);
    e = json_pack("{s:o}", "error", e);
    text = json_dumps(e, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        buf_puts(out, text);
    free(text);
    json_decref(e);
}

static enum response wrong(struct buf *error, enum response a, size_t number,
                           const char *field, const char *why)
{
    put_error(error, a, number, field, why, NULL);
    return a;
}

/* ---- one event ---- */

static enum response judge_names(const struct settings *s,
                                 const struct producer *p,
                                 const struct published *e, size_t number,
                                 struct buf *error)
{
    static const enum response responses[] = {
        [PUBLISHED_GOOD] = RESPONSE_NONE,
        [PUBLISHED_WORKSPACE_FORBIDDEN] = RESPONSE_WORKSPACE_FORBIDDEN,
        [PUBLISHED_TYPE_FORBIDDEN] = RESPONSE_TYPE_FORBIDDEN,
        [PUBLISHED_URL_FORBIDDEN] = RESPONSE_URL_FORBIDDEN,
        [PUBLISHED_UNKNOWN] = RESPONSE_EVENT_MALFORMED,
    };
    struct published_wrong w;
    enum response a = responses[published_judge(e, s, p, &w)];

    return a ? wrong(error, a, number, w.field, w.why) : a;
}

static enum response judge_type(const struct event_types *types,
                                const struct producer *p,
                                const struct published *e, size_t number,
                                struct buf *error)
{
    struct event_types_wrong w;
    enum response a = event_types_judge(types, p, e, &w);

    if (a == RESPONSE_TYPES_UNKNOWN)
        return wrong(error, a, number, "",
                     "cannot be checked yet: the "
                     "catalogue of event types was not "
                     "read; send it again");
    if (a)
        put_error(error, a, number, w.field, w.why, &w);
    return a;
}

enum response line_judge(const struct settings *s,
                         const struct event_types *types,
                         const struct producer *p, struct bytes text,
                         struct bytes key, size_t number,
                         char event_id[EVENT_ID_BYTES + 1], struct buf *error)
{
    struct published_wrong w;
    struct published e;
    enum response a;

    event_id[0] = 0;
    if (published_read(&e, text, &w) != GR_OK) {
        a = wrong(error, RESPONSE_EVENT_MALFORMED, number, w.field, w.why);
    } else if (e.id && key.n &&
               (strlen(e.id) != key.n || memcmp(e.id, key.p, key.n) != 0)) {
        a = wrong(error, RESPONSE_EVENT_MALFORMED, number, "id",
                  "is different from Idempotency-Key");
    } else {
        a = judge_names(s, p, &e, number, error);
        if (!a)
            a = judge_type(types, p, &e, number, error);
        if (e.id)
            key = (struct bytes){e.id, strlen(e.id)};
        if (!a && key.n)
            published_event_id(event_id, p->name, key);
    }
    published_fini(&e);
    return a;
}

/* ---- the same key again ---- */

static bool read_digest(struct bytes body, uint8_t out[PUBLISHED_DIGEST_BYTES])
{
    struct published_wrong w;
    struct published p;
    bool good = published_read(&p, body, &w) == GR_OK;

    if (good)
        published_digest(&p, body, out);
    published_fini(&p);
    return good;
}

bool line_differs(struct bytes stored, struct bytes body)
{
    uint8_t a[PUBLISHED_DIGEST_BYTES], b[PUBLISHED_DIGEST_BYTES];

    if (stored.n == body.n && memcmp(stored.p, body.p, body.n) == 0)
        return false;
    return !read_digest(stored, a) || !read_digest(body, b) ||
           memcmp(a, b, sizeof a) != 0;
}

/* {"error":{"code","message","line", without its end. Codes and messages need no escaping. */
static void begin_refusal(struct buf *error, enum response a, size_t number)
{
    const struct response_facts *f = response_facts(a);

    buf_printf(error, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"", f->code,
               f->message);
    if (number)
        buf_printf(error, ",\"line\":%zu", number);
}

void line_reused(const char *first_id, size_t number, struct buf *error)
{
    begin_refusal(error, RESPONSE_KEY_REUSED, number);
    buf_printf(error, ",\"id\":\"%s\"}}", first_id);
}

/* ---- a batch ---- */

static bool is_blank(struct bytes text)
{
    const char *p = text.p;

    for (size_t i = 0; i < text.n; i++)
        if (!strchr(" \t\r", p[i]) || !p[i])
            return false;
    return true;
}

static void judge(const struct settings *s, const struct event_types *types,
                  const struct producer *p, struct lines *l, struct line *line)
{
    struct buf error;

    buf_init(&error, WRONG_MAX_BYTES);
    line->refusal = line_judge(s, types, p, line->text, (struct bytes){"", 0},
                               line->number, line->event_id, &error);
    if (line->refusal) {
        line->wrong_at = l->wrongs.len;
        buf_put(&l->wrongs, error.data ? error.data : "", error.len);
        buf_put(&l->wrongs, "", 1);
    } else {
        l->good++;
    }
    buf_fini(&error);
}

struct lines *lines_new(void)
{
    struct lines *l = gr_alloc(sizeof *l);

    buf_init(&l->wrongs, WRONGS_MAX_BYTES);
    return l;
}

void lines_free(struct lines *l)
{
    if (!l)
        return;
    free(l->items);
    buf_fini(&l->wrongs);
    free(l);
}

size_t lines_bytes(const struct lines *l)
{
    return l ? l->count * (sizeof *l->items + RESULT_BYTES) + l->wrongs.cap +
                   l->wrongs.len
             : 0;
}

enum lines_step lines_read(struct lines *l, const struct settings *s,
                           const struct event_types *types,
                           const struct producer *p, struct bytes body,
                           int64_t *count, int64_t *bytes)
{
    while (*count > 0 && *bytes > 0 && l->read_bytes < body.n) {
        const char *at = (const char *)body.p + l->read_bytes;
        const char *stop = memchr(at, '\n', body.n - l->read_bytes);
        struct bytes text = {at, stop ? (size_t)(stop - at)
                                      : body.n - l->read_bytes};
        size_t n = text.n + (stop != NULL);

        l->read_bytes += n;
        l->read_lines++;
        *bytes -= (int64_t)n;
        if (is_blank(text))
            continue;
        if (l->count == LINES_MAX_COUNT)
            return LINES_TOO_MANY;
        if (l->count % 64 == 0)
            l->items = gr_realloc(l->items, (l->count + 64) * sizeof *l->items);
        l->items[l->count] = (struct line){.text = text,
                                           .number = l->read_lines};
        judge(s, types, p, l, &l->items[l->count++]);
        --*count;
    }
    return l->read_bytes < body.n ? LINES_MORE : LINES_END;
}

static void refuse(struct lines *l, struct line *line, enum response a)
{
    if (!line->refusal)
        l->good--;
    line->refusal = a;
    line->wrong_at = l->wrongs.len;
}

void lines_refuse(struct lines *l, struct line *line, enum response a)
{
    refuse(l, line, a);
    if (a == RESPONSE_KEY_REUSED) {
        line_reused(line->event_id, line->number, &l->wrongs);
    } else {
        begin_refusal(&l->wrongs, a, line->number);
        buf_puts(&l->wrongs, "}}");
    }
    buf_put(&l->wrongs, "", 1);
}

/* Also refuses lines whose key was reused: its first use may be a line that is not stored. */
void lines_give_up(struct lines *l, enum response why)
{
    for (size_t i = l->committed; i < l->count; i++) {
        struct line *line = &l->items[i];

        if (line->refusal && line->refusal != RESPONSE_KEY_REUSED)
            continue;
        refuse(l, line, why);
        begin_refusal(&l->wrongs, why, line->number);
        buf_puts(&l->wrongs, "}}");
        buf_put(&l->wrongs, "", 1);
    }
}

void lines_print(const struct lines *l, struct buf *out)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct line *line = &l->items[i];

        if (line->refusal)
            buf_puts(out, l->wrongs.data + line->wrong_at);
        else
            buf_printf(out,
                       "{\"line\":%zu,\"id\":\"%s\",\"status\":\"accepted\"}",
                       line->number, line->event_id);
        buf_put(out, "\n", 1);
    }
}
