/* diagnosis: names the usual mistake because of which a signature was not valid, such as a
 * secret of another source, a body that a proxy changed, or another URL.
 *
 * Pure. It makes the signature as each mistake would have made it, and compares it with those
 * in the request, so a finding that is `certain` is proved: the signature is valid under the
 * mistake. Findings that are not certain are hints that the request itself has. The texts have
 * names, URLs and times, and nothing of a secret. Ingress calls it for the command
 * `reject_explain` only. */
#ifndef INGRESS_DIAGNOSIS_H
#define INGRESS_DIAGNOSIS_H

#include "reject_mistakes.h"
#include "settings.h"

enum { FINDINGS_MAX = 6 };

struct finding {
    enum reject_mistake mistake;
    bool certain;
    char *text, *fix; /* what is wrong, and what to do */
};

struct diagnosis {
    struct finding findings[FINDINGS_MAX]; /* what to look at first is first */
    size_t count;
    int64_t tried; /* signatures that were made */
    bool complete; /* false: a bound ended the search */
};

/* A request as it came. Borrowed. */
struct diagnosed {
    const struct settings *settings;
    const struct source *source;
    struct bytes headers; /* packed (headers.h), with the signature */
    struct bytes body;
    const char *path;  /* of the request line, without the query */
    int64_t judged_ms; /* by the clock that judged its time */
    int64_t
        stepped_ms; /* by how much that clock had been set since ingress started; 0: not */
};

/* Takes at most about 20 ms of computing. diagnosis_fini() afterwards. */
void diagnose(struct diagnosis *d, const struct diagnosed *r);
void diagnosis_fini(struct diagnosis *d);

/* The word of a mistake; static. */
const char *mistake_word(enum reject_mistake m);
/* Appends a finding; the format is of its text. `fix` is copied. */
void diagnosis_add(struct diagnosis *d, enum reject_mistake mistake,
                   bool certain, const char *fix, const char *fmt, ...)
    GR_PRINTF(5, 6);

#endif
