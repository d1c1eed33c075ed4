/* lines: a batch of producers' events, a JSON object a line, judged before any
 * of it is stored. Pure. */
#ifndef INGRESS_LINES_H
#define INGRESS_LINES_H

#include "answer.h"
#include "published.h"
#include "settings.h"

enum { LINES_MAX_COUNT = 10000 };

struct line {
    struct bytes text;                 /* into the body */
    size_t number;                     /* from 1, as in the body */
    enum answer refusal;               /* ANSWER_NONE: it can be taken */
    char event_id[EVENT_ID_BYTES + 1]; /* of one with a key; else "" */
    size_t wrong_at;                   /* of a refused one: into `wrongs` */
};

struct lines {
    struct line *items;
    size_t count, good;
    struct buf wrongs; /* what is wrong, as JSON, each ended with 0 */
};

/* What may this producer publish: is the object whole, and may it name what it
 * names? Else the reason, and `error` gets the answer's JSON; `number` 0: it is
 * no line of a batch. `key` is an idempotency key from elsewhere, or empty.
 * `event_id` is filled in when there is a key. */
enum answer line_judge(const struct settings *s, const struct producer *p,
                       struct bytes text, struct bytes key, size_t number,
                       char event_id[EVENT_ID_BYTES + 1], struct buf *error);

/* An idempotency key that came before, with another object? `stored` and `body`
 * were both found good by line_judge(). */
bool line_differs(struct bytes stored, struct bytes body);
/* The answer to that; `number` as above. */
void line_reused(const char *first_id, size_t number, struct buf *error);
/* A line that was good is refused after all. */
void lines_refuse(struct lines *l, struct line *line, enum answer a);

/* Blank lines are passed over. NULL: there are more than LINES_MAX_COUNT. */
struct lines *lines_read(const struct settings *s, const struct producer *p,
                         struct bytes body);
void lines_free(struct lines *l);
size_t lines_bytes(const struct lines *l); /* of memory; of NULL 0 */

/* One line of the answer. */
void line_print(const struct lines *l, const struct line *line,
                struct buf *out);

#endif
