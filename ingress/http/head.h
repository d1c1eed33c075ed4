/* head: a request's line and headers, judged before any of its body is read.
 * Pure, but for one thing: it looks at where libmicrohttpd 0.9.75 left them.
 *
 * That library parses in place: it puts zeroes over the colon and the line end
 * and gives us pointers. A NUL inside a value, a folded line and a bare LF are
 * taken silently (a folded line even becomes a part of the header's *name*),
 * but each leaves a trace: name, value and the next name no longer stand one
 * behind the other with exactly CR LF between them. So the whole head must be
 * gapless, from the version to its end, or it is refused. Later versions can be
 * told to be strict themselves, and lay things out as they like. */
#ifndef INGRESS_HEAD_H
#define INGRESS_HEAD_H

#include "rc.h"
#include "response.h"

enum {
    HEAD_MAX_BYTES = 16 * 1024,
    HEAD_MAX_COUNT = 128, /* headers */
};

struct head_field {
    struct bytes name, value; /* the value still has blanks at its end */
};

struct head {
    const char *method, *url, *version; /* each ended with 0, in place */
    size_t raw_url_bytes; /* of the target as it was sent, query included */
    size_t bytes;         /* from the method to the end of the empty line */
    bool parsed_strictly; /* by the library: where things stand says nothing */
    size_t count;         /* HEAD_MAX_COUNT + 1: there were more */
    struct head_field fields[HEAD_MAX_COUNT];
};

struct head_facts {
    bool chunked;
    bool has_length;
    uint64_t length;
    bool expects; /* the client waits for 100 Continue */
    bool compressed;
};

/* RESPONSE_NONE: fine, and `facts` is filled in. */
enum response head_check(const struct head *head, struct head_facts *facts);

/* The target's path, in place. A target in absolute form (http://host/path) must
 * be accepted too (RFC 9112, section 3.2.2); its authority is not used. */
const char *head_path(const struct head *head);

#endif
