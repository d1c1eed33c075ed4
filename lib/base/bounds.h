/* bounds: every limit of the data that crosses a process boundary, in one place. The
 * encoder checks them as the decoder does, so that no process sends what its peer refuses. */
#ifndef BASE_BOUNDS_H
#define BASE_BOUNDS_H

enum {
    NAME_MAX_BYTES = 63,   /* a name of a process, source, endpoint … */
    EVENT_ID_BYTES = 30,   /* "evt_" and 26 of Crockford's base 32 */
    INBOX_MAX_BYTES = 255, /* the address of an inbox */
    TOKEN_WORKSPACE_MAX_BYTES = 255, /* of the workspace of a token */
    TEXT_MAX_BYTES = 4096, /* a provider's id, a type, a workspace, an error */
    HEADERS_MAX_BYTES = 64 * 1024, /* headers of one request, packed */
    SAME_ID_MAX = 100, /* events that `trace` lists for a provider's id */
    URL_MAX_BYTES = 16 * 1024,
    RESPONSE_MAX_BYTES = 16 * 1024,
    DEDUPE_KEYS_MAX = 15,              /* idempotency keys of one source */
    BODY_MAX_BYTES = 64 * 1024 * 1024, /* the largest value of `max_body` */
    MESSAGE_MAX_BYTES = BODY_MAX_BYTES + 2 * HEADERS_MAX_BYTES + 64 * 1024,

    /* A batch holds this much, or one message that is larger. */
    BATCH_MAX_COUNT = 128,
    BATCH_MAX_BYTES = 1024 * 1024,
    /* Messages of a link that are not acknowledged. */
    WINDOW_MAX_COUNT = 4096,
    WINDOW_MAX_BYTES = 16 * 1024 * 1024,
    /* with space for the frame around the messages */
    FRAME_MAX_BYTES = MESSAGE_MAX_BYTES + BATCH_MAX_BYTES,
    EPOCHS_MAX_COUNT = 16384, /* of one `epochs` frame: the newest ones */

    /* What one turn takes. */
    TURN_MAX_COUNT = 256,
    TURN_MAX_BYTES = 4 * 1024 * 1024,
    TURN_MAX_MS = 5,
};

#endif
