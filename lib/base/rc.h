/* rc: what a call says to its caller, and the way out when our ground is gone.
 *
 * Three outcomes, named for the caller's next move. There is no code for "the
 * store failed" or "out of memory": those die(), which "commit, then send" makes
 * safe, and the supervisor starts us again. */
#ifndef BASE_RC_H
#define BASE_RC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    GR_OK = 0,
    GR_AGAIN,  /* not now: wait for space or for a peer, then repeat the call */
    GR_REFUSE, /* this input is at fault: reject it or set it aside, go on */
} gr_rc;

#define GR_MUST_CHECK   __attribute__((warn_unused_result))
#define GR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define COUNT_OF(a)     (sizeof(a) / sizeof((a)[0]))

/* Exit codes: those of sysexits.h that users see (docs: README). */
enum {
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69, /* port in use, state locked by another instance */
    EXIT_STORAGE = 74,
    EXIT_CONFIG = 78,
};

/* Log one sentence at level error and exit with `code`. Nothing is flushed or
 * committed: what was committed before is what the next start finds. */
_Noreturn void die(int code, const char *fmt, ...) GR_PRINTF(2, 3);

/* Bytes that belong to somebody else, until the owner says otherwise. */
struct bytes {
    const void *p;
    size_t n;
};

#endif
