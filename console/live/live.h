/* live: the streams of GET /stream: what happens is put into a bounded ring, and sent to each stream
 * whose filter it passes. live_feed.h asks the processes for it.
 *
 * An item has the id RING-N: RING changes with each start of the console. A stream resumes after the
 * item that its client has seen last, if the ring still has all that follow; else it gets `reset` and the client has to read the lists again. Items may be
 * missing, and then `skipped` says so; an item may come twice after a rollback.
 *
 * Limits: 100 streams, 10 of a token, 64 KiB of each that its client has not read, 2000 items and 2 MiB
 * in the ring. A stream whose client is slower than the ring, or does not read for 30 s, is closed;
 * others do not notice. A token is checked every second
 * while it has streams.
 *
 * Used by the console from the loop's thread. All of it is in memory. */
#ifndef CONSOLE_LIVE_H
#define CONSOLE_LIVE_H

#include "authorization.h"
#include "web.h"

struct live;
struct live_stream;

enum live_kind {
    LIVE_EVENT = 1,
    LIVE_ATTEMPT = 2,
    LIVE_ALERT = 4,
    LIVE_ALL = 7,
};

struct live *live_open(const char *run_dir);
/* After web_close(). */
void live_close(struct live *l);
int live_fd(const struct live *l); /* for the loop */
/* Asks, reads and sends. Returns how long the loop may sleep, in ms; -1: nobody listens. */
int live_work(struct live *l, int64_t mono_ms);
/* Ends the streams of tokens of the configuration that are no longer in it. */
void live_reload(struct live *l, const struct string_list *tokens);

/* ---- streams ---- */

struct live_filter {
    unsigned kinds; /* of enum live_kind */
    /* NULL: all. An item without such a member does not pass. Exact, and copied. */
    const char *workspace, *endpoint, *source;
    const char *tenant; /* only what tokens of this workspace may see */
    int64_t tenant_max; /* streams of this workspace */
};

enum live_refusal { LIVE_JOINED, LIVE_FULL, LIVE_TOKEN_FULL, LIVE_TENANT_FULL };

/* Begins a stream, and sets the stream of the request, which has to call live_read(). `digest`: of the
 * token, if the sequencer has it, or "". `last_id`: of the last item that the client has seen, or NULL.
 * `seconds`: after which it ends; 0: never. */
enum live_refusal live_join(struct live *l, struct web_request *web,
                            const struct live_filter *filter,
                            const struct api_actor *actor, const char *digest,
                            const char *last_id, int64_t seconds,
                            struct live_stream **out);
/* The stream's client has gone. */
void live_leave(struct live_stream *s);
/* See web_stream_fn. */
int64_t live_read(struct live_stream *s, char *to, size_t max);

/* ---- what happens ---- */

struct live_item {
    enum live_kind kind;
    const char *workspace, *endpoint, *source; /* NULL: it has none */
    /* The workspace whose tokens may see it, and what they see; NULL: only operators see it, and
     * all see `data`. */
    const char *tenant;
    const json_t *tenant_data;
    const json_t *data;
};
/* Puts it into the ring and into the streams; borrows all. */
void live_put(struct live *l, const struct live_item *item);
/* Some items of this kind are missing. */
void live_skipped(struct live *l, enum live_kind kind);
/* The kinds that somebody listens to, or has listened to until lately. */
unsigned live_kinds(const struct live *l);

#endif
