/* lines: a batch of events of a producer, one JSON object per line, judged before any of it is
 * stored; and its response. Pure. */
#ifndef INGRESS_LINES_H
#define INGRESS_LINES_H

#include "published.h"
#include "response.h"
#include "settings.h"

struct event_types;

enum { LINES_MAX_COUNT = 10000 };

struct line {
    struct bytes text;                 /* into the body */
    size_t number;                     /* from 1, as in the body */
    enum response refusal;             /* RESPONSE_NONE: it may be stored */
    char event_id[EVENT_ID_BYTES + 1]; /* if it has a key; else "" */
    size_t wrong_at;                   /* if it is refused: into `wrongs` */
};

struct lines {
    struct line *items;
    size_t count, good;
    struct buf wrongs; /* the errors as JSON, each ended with 0 */
    /* How much of the body is read: bytes, and lines, blank ones included. */
    size_t read_bytes, read_lines;
    /* Items up to here are stored or refused: inserted by a turn; and the commit of that turn
     * has ended. */
    size_t inserted, committed;
    bool judged; /* all lines are judged, and the batch may be stored */
};

/* Judge one object of this producer: is it complete, may the producer publish its type and
 * workspace, and does it fit its type (event_types.h; `types` may be NULL)? If not, returns the reason, and `error` gets the JSON of the response. `number` 0:
 * it is not a line of a batch. `key` is an idempotency key from a header, or empty. `event_id`
 * is filled in if there is a key. */
enum response line_judge(const struct settings *s,
                         const struct event_types *types,
                         const struct producer *p, struct bytes text,
                         struct bytes key, size_t number,
                         char event_id[EVENT_ID_BYTES + 1], struct buf *error);

/* Whether two objects with the same idempotency key differ. line_judge() accepted both. */
bool line_differs(struct bytes stored, struct bytes body);
/* The error of a reused key; `number` as above. */
void line_reused(const char *first_id, size_t number, struct buf *error);
/* Refuse a line that was accepted before: its key is reused. */
void lines_refuse(struct lines *l, struct line *line, enum response a);

enum lines_step { LINES_MORE, LINES_END, LINES_TOO_MANY };

struct lines *lines_new(void);
void lines_free(struct lines *l);
/* Memory of the lines and of their response; 0 for NULL. */
size_t lines_bytes(const struct lines *l);

/* Judge the next lines of the body, until `*count` lines or `*bytes` of it are used up; both
 * are counted down, and the last line may exceed them. Blank lines are skipped. LINES_TOO_MANY:
 * there are more than LINES_MAX_COUNT. */
enum lines_step lines_read(struct lines *l, const struct settings *s,
                           const struct event_types *types,
                           const struct producer *p, struct bytes body,
                           int64_t *count, int64_t *bytes);

/* Refuse the uncommitted lines that were accepted, for this reason, a 503. */
void lines_give_up(struct lines *l, enum response why);
/* The response: the outcome of each line. */
void lines_print(const struct lines *l, struct buf *out);

#endif
