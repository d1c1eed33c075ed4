/* store_order: the rows of streams, buffered events, gaps, ingress processes and objects. All
 * calls are inside the turn's transaction. */
#ifndef SEQUENCER_STORE_ORDER_H
#define SEQUENCER_STORE_ORDER_H

#include "order.h"
#include "row.h"

struct store_order;

struct store_order *store_order_open(struct db *db);
void store_order_close(struct store_order *s);

/* ---- streams ---- */

/* A row of `streams`. `held`: how many events of it are buffered. */
#define STREAM_COLUMNS(F, X) \
    F(text, source)          \
    X(text, workspace)       \
    X(text, type)            \
    X(number, kind)          \
    X(i64, next)             \
    X(i64, high)             \
    X(i64, held)             \
    X(i64, epoch)
struct stream_row {
    int64_t id;
    ROW_FIELDS(STREAM_COLUMNS)
};

/* Strings are borrowed until store_stream_done(). */
bool store_stream(struct store_order *s, const char *source,
                  const char *workspace, const char *type, int kind,
                  struct stream_row *r);
bool store_stream_by_id(struct store_order *s, int64_t id,
                        struct stream_row *r);
void store_stream_done(struct store_order *s);
int64_t store_stream_add(struct store_order *s, const struct stream_row *r);
/* The epoch of a source's streams; a new one if `form` has changed. */
int64_t store_order_epoch(struct store_order *s, const char *source,
                          int64_t form);
/* Write next, high, held and epoch. */
void store_stream_set(struct store_order *s, const struct stream_row *r);
/* The next stream above `after` that has buffered events; 0: no more. */
int64_t store_stream_buffering(struct store_order *s, int64_t after);
/* How many events are buffered in one workspace; NULL: in all. */
int64_t store_buffered_count(struct store_order *s, const char *workspace);

/* ---- buffer ---- */

struct buffered_row {
    int64_t position, event, generation;
    bool observed;
};

void store_buffered_add(struct store_order *s, int64_t stream,
                        const struct buffered_row *h, int64_t due);
/* The first buffered event of a stream; false: there is none. */
bool store_buffered_first(struct store_order *s, int64_t stream,
                          struct buffered_row *h);
void store_buffered_drop(struct store_order *s, int64_t stream,
                         const struct buffered_row *h);
/* In time order: the last position whose wait had ended at `clock` (watermark clock);
 * INT64_MIN: none. */
int64_t store_buffered_upto(struct store_order *s, int64_t stream,
                            int64_t clock);
/* Streams in which a wait had ended at `clock`, some more than once; returns how many. */
int store_buffered_due(struct store_order *s, int64_t clock, int max,
                       int64_t *streams);
/* In time order: let no event of this source wait longer than until `due`. */
void store_buffered_shorten_waits(struct store_order *s, const char *source,
                                  int64_t due);
/* When the next wait of any kind ends; INT64_MAX: no event waits. */
int64_t store_next_due(struct store_order *s);

/* ---- gaps ---- */

/* A row of `gaps`. */
#define GAP_FACTS(F, X) \
    F(i64, stream)      \
    X(text, source)     \
    X(text, workspace)  \
    X(text, type)       \
    X(number, status)   \
    X(i64, opened_ms)   \
    X(i64, closed_ms)   \
    X(text, note)       \
    X(i64, due)
#define GAP_SPAN(F, X) \
    F(i64, first)      \
    X(i64, last)
#define GAP_COLUMNS(F, X) GAP_FACTS(F, X) GAP_SPAN(X, X)
struct gap_row {
    int64_t id;
    ROW_FIELDS(GAP_FACTS)
    struct span span;
};

int64_t store_gap_add(struct store_order *s, const struct gap_row *g);
/* The gap of a stream that contains `number`; false: there is none. Texts are borrowed until
 * store_gap_done(). */
bool store_gap_of(struct store_order *s, int64_t stream, int64_t number,
                  struct gap_row *g);
/* The last gap before `number` that is not filled, in the stream of such an event. Texts are
 * borrowed until store_gap_before_done(). */
bool store_gap_before(struct store_order *s, const char *source,
                      const char *workspace, const char *type, int64_t number,
                      struct gap_row *g);
void store_gap_before_done(struct store_order *s);
bool store_gap(struct store_order *s, int64_t id, struct gap_row *g);
void store_gap_done(struct store_order *s);
void store_gap_span(struct store_order *s, int64_t id, struct span span);
void store_gap_end(struct store_order *s, int64_t id, int status,
                   int64_t closed_ms, const char *note);
/* A gap whose wait had ended at `clock`: its id, and its stream; 0: none. */
int64_t store_gap_due(struct store_order *s, int64_t clock, int64_t *stream);
/* End all open gaps of a stream, and separate all gaps from it; returns how many were open. */
int store_gaps_skip_all(struct store_order *s, int64_t stream, int status,
                        int64_t closed_ms, const char *note);
/* Let no open gap of this source wait longer than until `due`. */
void store_gaps_shorten_waits(struct store_order *s, const char *source,
                              int64_t due);
void store_gap_figures(struct store_order *s, int64_t *open,
                       int64_t *oldest_ms);
int64_t store_gap_count(struct store_order *s, const char *workspace);
/* Newest first, below this id, until `fn` returns false. */
typedef bool gap_fn(void *arg, const struct gap_row *g);
void store_gaps(struct store_order *s, bool open_only, int64_t below,
                gap_fn *fn, void *arg);
/* The open gaps of one stream, in order. */
void store_gaps_open_of(struct store_order *s, int64_t stream, gap_fn *fn,
                        void *arg);
/* Delete gaps that ended before `cutoff_ms`, at most `max`; returns how many. */
int store_gaps_purge(struct store_order *s, int64_t cutoff_ms, int max);

/* ---- ingress processes ---- */

typedef void ingress_fn(void *arg, const char *name);
void store_ingresses(struct store_order *s, ingress_fn *fn, void *arg);
void store_ingress_add(struct store_order *s, const char *name);
void store_ingress_drop(struct store_order *s, const char *name);

/* ---- objects ---- */

/* The state of an object, which the caller frees; NULL: it was never seen. */
char *store_object(struct store_order *s, const char *source,
                   const char *workspace, const char *object);
void store_object_set(struct store_order *s, const char *source,
                      const char *workspace, const char *object,
                      const char *state, int64_t at_ms, bool last);
/* Delete objects in a last state since before `cutoff_ms`, at most `max`; returns how many. */
int store_objects_purge(struct store_order *s, int64_t cutoff_ms, int max);

/* ---- workspaces, for lists ---- */

/* false: ends the list. */
typedef bool workspace_fn(void *arg, const char *name, int64_t sequence,
                          const char *clock);
/* false: there is none with this name. */
bool store_workspace_row(struct store_order *s, const char *name,
                         workspace_fn *fn, void *arg);
/* Those whose names sort after `after`, sorted by name. */
void store_workspace_list(struct store_order *s, const char *after,
                          workspace_fn *fn, void *arg);

#endif
