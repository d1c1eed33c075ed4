/* arguments: makes the arguments of a control command from an HTTP request: its path, its query
 * or its JSON body, with the public names (`since` for `since_ms`, `cursor` for `before`). Pure.
 *
 * An argument that is unknown, doubled or not as declared is an error: an ignored filter would
 * make a command act on everything. */
#ifndef CONSOLE_ARGUMENTS_H
#define CONSOLE_ARGUMENTS_H

#include "routes.h"
#include "web.h"

struct arguments_wrong {
    bool body;      /* the body as a whole is wrong */
    char field[64]; /* the public name of the argument; "": none */
    char why[WEB_MESSAGE_BYTES];
};

/* `owner`: of the token, as cursor_write() has it. Of a request without a body: `query` as it was sent (NULL: none). Of one with a body (POST,
 * PATCH, PUT): `has_body`, and then a query is refused. `now_ms`: for "24h" ago. Returns the
 * arguments, which fit the declaration, the caller's; or NULL with `wrong` filled in. */
json_t *arguments_read(const struct route_match *route, const char *owner,
                       const char *query, bool has_body, struct bytes body,
                       int64_t now_ms, struct arguments_wrong *wrong);

/* Whether HTTP has this argument; the server sets the others. */
bool argument_is_public(const struct value *v);
/* Whether it is the place of a page in a list, which HTTP calls `cursor`. */
bool argument_is_cursor(const struct command_spec *c, const struct value *v);

/* The text that stands for the `next` of a reply, for the token of this owner alone; NULL for null.
 * The caller's. */
char *cursor_write(const json_t *next, const char *owner);

#endif
