/* watermark: answers the sequencer's watermark requests: which of the events that were received
 * before the request may still come? */
#ifndef ARCHIVE_WATERMARK_H
#define ARCHIVE_WATERMARK_H

#include "bounds.h"
#include "rc.h"
#include <stdbool.h>
#include <stdint.h>

struct archive;

/* The watermark request to be answered; epoch 0: there is none. */
struct watermark {
    char inbox[INBOX_MAX_BYTES + 1];
    uint64_t epoch;
    int64_t stamp_ms;
    /* The response, which the process sets in its turn when all events received before the request
     * have a number: the next number. 0: some are not stored yet. */
    uint64_t next;
    bool fresh; /* it came in this turn; the process clears it */
};

/* For daemon_plan's frame(): notes a request; any other frame is dropped with a log line. */
void watermark_frame(struct archive *a, int kind, struct bytes frame);
/* After the commit: sends the response, if there is one. */
void watermark_flush(struct archive *a);

#endif
