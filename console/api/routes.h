/* routes: finds the command that a method and path of the management API mean, from the routes
 * that the commands declare. Pure, after routes_open(). */
#ifndef CONSOLE_ROUTES_H
#define CONSOLE_ROUTES_H

#include "command_spec.h"

enum {
    ROUTE_PARTS_MAX = 6, /* segments of a path */
    ROUTE_METHODS_BYTES = 64,
};

struct routes;

/* All commands of commands.h that have a route. */
struct routes *routes_open(void);
void routes_close(struct routes *r);

struct route_match {
    const struct command_spec *command; /* NULL: no route, or another method */
    /* The parameters of the path, in its order. */
    struct {
        const char *name; /* of the argument; static, not ended: */
        size_t name_bytes;
        char *value; /* decoded; owned */
    } values[ROUTE_PARTS_MAX];
    size_t value_count;
    bool known;                        /* the path exists */
    char methods[ROUTE_METHODS_BYTES]; /* of the path: "GET, HEAD, POST" */
};

/* `path` is below /api/v1 and as it was sent: it is split at each slash, then each segment is
 * decoded, so that an encoded slash belongs to its segment. HEAD is GET. */
void routes_match(const struct routes *r, const char *method, const char *path,
                  struct route_match *out);
void route_match_fini(struct route_match *m);

/* Decodes %XX, and with `form` also `+` (a space). NULL: a % is not followed by two hex digits,
 * or the result has a NUL or is not UTF-8. The caller's. */
char *percent_decode(const char *text, size_t n, bool form);

#endif
