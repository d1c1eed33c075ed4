/* show: a stored request, as it came, and an attempt, as it was sent. */
#ifndef CTL_SHOW_H
#define CTL_SHOW_H

#include "ctl.h"

/* A body as an answer brings it, in pieces: `what` (request, reject) is asked with
 * `args` again until the body is whole. Returns the first answer with "body", or
 * "body_b64" when it is not UTF-8, and `raw` gets its bytes (the caller's). NULL:
 * *unreachable and `why` as of ask(). */
json_t *show_fetch(struct ctl *c, const char *process, const char *what,
                   json_t *args, struct buf *raw, bool *unreachable,
                   char why[200]);

/* Print headers, [[name, value]…], and a body, each line made harmless for a
 * terminal. Bytes that are not text are only counted. At most `most` bytes, then how
 * many more there are. */
void show_headers(const json_t *headers, const char *mark);
void show_body(struct bytes body, const char *mark, size_t most);
/* The bytes as they are, to standard output. On a terminal only harmless text.
 * The exit code. */
int show_raw(struct bytes body);

#endif
