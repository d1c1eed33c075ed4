/* bounds: every limit of the data that crosses a process boundary, in one place. The
 * encoder checks them as the decoder does, so that no process sends what its peer refuses. */
#ifndef BASE_BOUNDS_H
#define BASE_BOUNDS_H

enum {
    NAME_MAX_BYTES = 63,   /* of processes, sources, endpoints … */
    EVENT_ID_BYTES = 30,   /* "evt_" and 26 of Crockford's base 32 */
    INBOX_MAX_BYTES = 255, /* an inbox's address */
    TEXT_MAX_BYTES = 4096, /* ids of others, types, workspaces, errors */
    HEADERS_MAX_BYTES = 64 * 1024, /* packed */
    URL_MAX_BYTES = 16 * 1024,
    RESPONSE_MAX_BYTES = 16 * 1024,
    DEDUPE_KEYS_MAX = 15,              /* idempotency keys of one source */
    BODY_MAX_BYTES = 64 * 1024 * 1024, /* the most `max_body` may be set to */
    MESSAGE_MAX_BYTES = BODY_MAX_BYTES + 2 * HEADERS_MAX_BYTES + 64 * 1024,

    /* A batch holds this much, or one message that is larger. */
    BATCH_MAX_COUNT = 128,
    BATCH_MAX_BYTES = 1024 * 1024,
    /* A link's unacknowledged messages. */
    WINDOW_MAX_COUNT = 4096,
    WINDOW_MAX_BYTES = 16 * 1024 * 1024,
    /* with space for what stands around the messages */
    FRAME_MAX_BYTES = MESSAGE_MAX_BYTES + BATCH_MAX_BYTES,
    EPOCHS_MAX_COUNT = 16384, /* in one `runs` frame: the newest */

    /* A turn. */
    TURN_MAX_COUNT = 256,
    TURN_MAX_BYTES = 4 * 1024 * 1024,
    TURN_MAX_MS = 5,
};

#endif
