/* rc: what a call returns to its caller, and how a process ends when it cannot go on.
 *
 * There are three results, named for what the caller does next. There is no code for "the
 * store failed" or "out of memory": those call die(), which is safe because nothing is sent
 * before it is committed, and the supervisor starts the process again. */
#ifndef BASE_RC_H
#define BASE_RC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    GR_OK = 0,
    GR_AGAIN,  /* not now: wait for space or for a peer, then repeat the call */
    GR_REFUSE, /* this input is wrong: reject it or set it aside, and go on */
} gr_rc;

#define GR_MUST_CHECK   __attribute__((warn_unused_result))
#define GR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define COUNT_OF(a)     (sizeof(a) / sizeof((a)[0]))

/* Exit codes, those of sysexits.h; --help lists them for users. */
enum {
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69, /* port in use, state locked by another instance */
    EXIT_SOFTWARE = 70, /* only of a debug build: an invariant does not hold */
    EXIT_STORAGE = 74,
    EXIT_FENCED = 75, /* another start owns the replicated store */
    EXIT_CONFIG = 78,
};

/* Logs one sentence at level error and exits with `code`. Nothing is flushed or committed:
 * the next start finds what was committed before. */
_Noreturn void die(int code, const char *fmt, ...) GR_PRINTF(2, 3);

/* Bytes that belong to another object; valid as long as its owner says. */
struct bytes {
    const void *p;
    size_t n;
};

#endif
