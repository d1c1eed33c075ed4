/* lines: a batch of producers' events, a JSON object a line, judged before any
 * of it is stored, and its response. Pure. */
#ifndef INGRESS_LINES_H
#define INGRESS_LINES_H

#include "published.h"
#include "response.h"
#include "settings.h"

enum { LINES_MAX_COUNT = 10000 };

struct line {
    struct bytes text;                 /* into the body */
    size_t number;                     /* from 1, as in the body */
    enum response refusal;             /* RESPONSE_NONE: it can be taken */
    char event_id[EVENT_ID_BYTES + 1]; /* of one with a key; else "" */
    size_t wrong_at;                   /* of a refused one: into `wrongs` */
};

struct lines {
    struct line *items;
    size_t count, good;
    struct buf wrongs; /* what is wrong, as JSON, each ended with 0 */
    /* How far the body is read: bytes, and lines, blank ones too. */
    size_t read_bytes, read_lines;
    /* Items up to here are stored or refused: inserted by a turn, and that turn's
     * commit has ended. */
    size_t inserted, committed;
    bool judged; /* all of it, and it may be stored */
};

/* What may this producer publish: is the object whole, and may it name what it
 * names? Else the reason, and `error` gets the response's JSON; `number` 0: it is
 * no line of a batch. `key` is an idempotency key from elsewhere, or empty.
 * `event_id` is filled in when there is a key. */
enum response line_judge(const struct settings *s, const struct producer *p,
                         struct bytes text, struct bytes key, size_t number,
                         char event_id[EVENT_ID_BYTES + 1], struct buf *error);

/* An idempotency key that came before, with another object? `stored` and `body`
 * were both found good by line_judge(). */
bool line_differs(struct bytes stored, struct bytes body);
/* The response to that; `number` as above. */
void line_reused(const char *first_id, size_t number, struct buf *error);
/* A line that was good is refused after all. */
void lines_refuse(struct lines *l, struct line *line, enum response a);

enum lines_step { LINES_MORE, LINES_END, LINES_TOO_MANY };

struct lines *lines_new(void);
void lines_free(struct lines *l);
/* Memory that it takes, and that its response will; of NULL 0. */
size_t lines_bytes(const struct lines *l);

/* Judges the lines that follow in the body, until `*count` lines or `*bytes` of it are
 * used up; both are counted down, and the last line may exceed them. Blank lines are
 * passed over. LINES_TOO_MANY: there are more than LINES_MAX_COUNT. */
enum lines_step lines_read(struct lines *l, const struct settings *s,
                           const struct producer *p, struct bytes body,
                           int64_t *count, int64_t *bytes);

/* The lines that are not committed will not be stored: those that were good are refused
 * for this reason, a 503. */
void lines_give_up(struct lines *l, enum response why);
/* The response: what came of each line. */
void lines_print(const struct lines *l, struct buf *out);

#endif
