/* request_summary: what the sequencer will read from a request, by the same profile and
 * expressions. Pure. For `send` and `check --event`. */
#ifndef CTL_REQUEST_SUMMARY_H
#define CTL_REQUEST_SUMMARY_H

#include "settings.h"
#include <jansson.h>

struct request_summary {
    struct buf id, type, workspace; /* id: empty if the request has none */
    char refused
        [300]; /* why the sequencer would refuse the event; "": it would not */
    size_t count; /* events in the request */
};

/* `headers` (packed, headers.h) and `body` are borrowed. The caller calls
 * request_summary_fini(). */
void request_summary_read(struct request_summary *f,
                          const struct source *source, struct bytes headers,
                          struct bytes body);
void request_summary_fini(struct request_summary *f);

/* [{"keys":{"source":"plane","body_sha256":"…"}}, …]; null for a value that is
 * not in this request. The caller's. */
json_t *request_summary_dedupe(const struct request_summary *f,
                               const struct source *source,
                               struct bytes headers, struct bytes body);

#endif
