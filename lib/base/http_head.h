/* http_head: checks a request's line and headers before any of its body is read. For ingress and
 * the console. Pure, except that it looks at where libmicrohttpd 0.9.75 left them in memory.
 *
 * That version parses in place: it overwrites the colon and the line end with zeroes, and hands
 * out pointers. It accepts a NUL inside a value, a folded line and a bare LF without an error
 * (it even makes a folded line a part of the header's *name*), but each leaves a trace: name,
 * value and the next name no longer follow each other with exactly CR LF between them. So a
 * head is refused unless it is gapless from the version to its end. Later versions of
 * libmicrohttpd can be told to be strict, and place things as they like. */
#ifndef BASE_HTTP_HEAD_H
#define BASE_HTTP_HEAD_H

#include "rc.h"

enum {
    HEAD_MAX_BYTES = 16 * 1024,
    HEAD_MAX_COUNT = 128, /* headers */
};

struct head_field {
    struct bytes name, value; /* the value may have blanks at its end */
};

struct head {
    const char *method, *url, *version; /* each ends with 0, in place */
    size_t raw_url_bytes; /* of the target as sent, with its query */
    size_t bytes;         /* from the method to the end of the empty line */
    bool parsed_strictly; /* by libmicrohttpd: addresses mean nothing */
    size_t count;         /* HEAD_MAX_COUNT + 1: too many */
    struct head_field fields[HEAD_MAX_COUNT];
};

struct head_facts {
    bool chunked;
    bool has_length;
    uint64_t length;
    bool expects; /* the client waits for 100 Continue */
    bool compressed;
};

enum head_fault {
    HEAD_FINE,
    HEAD_TOO_LARGE,
    HEAD_MALFORMED,
    HEAD_LENGTH_AMBIGUOUS, /* of the body */
    HEAD_HOST_MISSING,
    HEAD_HOST_DOUBLED,
};

/* HEAD_FINE: `facts` is filled in. */
enum head_fault head_check(const struct head *head, struct head_facts *facts);

/* The target's path, in place. HTTP requires that a target in absolute form (http://host/path)
 * is accepted, too (RFC 9112, section 3.2.2); its host is ignored. */
const char *head_path(const struct head *head);

#endif
