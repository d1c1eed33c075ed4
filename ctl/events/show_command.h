/* show_command: a stored request, as it came, and an attempt, as it was sent. */
#ifndef CTL_SHOW_COMMAND_H
#define CTL_SHOW_COMMAND_H

#include "ctl.h"

/* A body as a reply brings it, in pieces: `what` (request, reject) is asked with
 * `args` again until the body is whole. Returns the first reply with "body", or
 * "body_b64" when it is not UTF-8, and `raw` gets its bytes (the caller's). NULL:
 * *unreachable and `why` as of ask(). */
json_t *show_fetch(struct ctl *c, const char *process, const char *what,
                   json_t *args, struct buf *raw, bool *unreachable,
                   char why[200]);

/* Print headers, [[name, value]…], and a body, each line made harmless for a
 * terminal. Bytes that are not text are only counted. At most `max` bytes, then how
 * many more there are. */
void show_headers(const json_t *headers, const char *mark);
void show_body(struct bytes body, const char *mark, size_t max);
/* The bytes as they are, to standard output. On a terminal only harmless text.
 * The exit code. */
int show_raw(struct bytes body);

#endif
