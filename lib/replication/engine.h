/* engine: the log of turns and who owns a store, in a database that acknowledges a commit only when it survives the loss of a node.
 *
 * Each call is one transaction in one round trip, and waits for it until its time limit. Call them from one thread. The rules of docs/decisions/0126: an
 * acknowledged COMMIT without a warning, of a transaction that has written, proves something. Everything else (an error, a time limit, a warning,
 * a lost connection, settings that can lose an acknowledged commit) is ENGINE_UNKNOWN: the transaction is in, is not, or will be later.
 * The next call connects again if necessary. The resolver may take longer than the limit, if `database` has a name of a host that it does not find. */
#ifndef REPLICATION_ENGINE_H
#define REPLICATION_ENGINE_H

#include "bounds.h"
#include "seal.h"
#include "turn.h"

enum {
    HOLDER_BYTES = 16,
    ENGINE_WHY_BYTES = 500,
    ENGINE_HOST_BYTES = 256, /* the name of a host, with its NUL */
};

enum engine_result {
    ENGINE_DONE,    /* exactly one row, and acknowledged */
    ENGINE_NO_ROW,  /* the condition does not hold; nothing was written */
    ENGINE_UNKNOWN, /* `why` says what happened */
};

/* The owner row of a process. */
struct owner {
    bool exists; /* false: replication was never begun for this process */
    struct position at; /* history, last, chain */
    int64_t epoch, beat, claim;
    uint8_t holder[HOLDER_BYTES]; /* zeros: released */
    int schema;
    char host
        [ENGINE_HOST_BYTES]; /* of the last holder, for people; "": there was none */
    /* Released for this host: others wait for takeover_after, as if it were the owner. "": any may take over at once. */
    char heir[ENGINE_HOST_BYTES];
    bool for_another; /* heir is another host than that of engine_settings */
};

/* What the active's statements compare. */
struct tenure {
    int64_t epoch;
    uint8_t holder[HOLDER_BYTES]; /* 128 random bits of this start */
    int schema; /* which a turn of this start leaves: append() writes it, nothing compares it */
};

/* This process on this host, as others see it. */
struct node {
    struct position at;
    bool ready;
    const char *why; /* not ready: what is missing, in one sentence; else "" */
    int peers; /* active processes of the pipeline that a standby reaches */
};

/* The row of a host, for people and for a handover: a read proves nothing. */
struct engine_node {
    char host[ENGINE_HOST_BYTES];
    int64_t n;                  /* the last turn that it has */
    bool ready;                 /* may take over */
    char why[ENGINE_WHY_BYTES]; /* not ready: what is missing */
    int peers; /* active processes of the pipeline that a standby reaches */
    int64_t seen_ms; /* how long ago it wrote its row, by the engine's clock */
};

/* What the engine has of a process, for people. */
struct engine_store {
    char process[NAME_MAX_BYTES + 1];
    struct owner owner;
    int64_t snapshot_n; /* of the newest whole snapshot; -1: there is none */
    int64_t
        log_bytes; /* of all turns after that snapshot, as they are stored */
    const struct engine_node *nodes; /* all of its hosts, by name */
    size_t node_count;
};

struct log_row { /* one turn of the log, whole */
    int64_t n, epoch;
    uint8_t chain[CHAIN_BYTES];
    struct bytes *parts;
    size_t count;
};

struct engine_settings {
    const char *database; /* libpq: a URI or "service=…" */
    const char *process;  /* "": for overview() alone */
    const char *host;     /* the name of this host */
    /* Half of it limits connecting, and again each call; one that carries more bytes gets 1 s more for each 4 MiB, and 2.5 holds at most. */
    int64_t hold_ms;
    /* Go on with settings that can lose an acknowledged commit. */
    bool accept_weak;
};

struct engine;

struct engine_ops {
    /* Copies what it needs; connects later. */
    struct engine *(*open)(const struct engine_settings *s);
    void (*close)(struct engine *e);

    /* The turn after `before`: sets last = before->n + 1, its chain and mine->schema, raises beat, and inserts the parts, of which there is one at least. ENGINE_NO_ROW unless history, epoch, holder, last
     * and chain are as in `before` and `mine`. *beat: of the row afterwards. */
    enum engine_result (*append)(struct engine *e, const struct tenure *mine,
                                 const struct position *before,
                                 const struct position *after,
                                 const struct sealed_parts *parts,
                                 int64_t *beat, char why[ENGINE_WHY_BYTES]);
    /* Raises beat, if last and chain are those of `at`. */
    enum engine_result (*beat)(struct engine *e, const struct tenure *mine,
                               const struct position *at, int64_t *beat,
                               char why[ENGINE_WHY_BYTES]);
    /* Gives the row away, to the host `heir`, or to any (""): holder is empty. Compares `beat`, too, so that it cannot arrive late. */
    enum engine_result (*release)(struct engine *e, const struct tenure *mine,
                                  const struct position *at, int64_t beat,
                                  const char *heir, char why[ENGINE_WHY_BYTES]);
    /* epoch + 1, the holder `me` on this host, and no heir, if history, epoch, last, chain, beat and schema are those of `seen`; beat stays. *mine: the tenure that begins. */
    enum engine_result (*take_over)(struct engine *e, const struct owner *seen,
                                    const uint8_t me[HOLDER_BYTES],
                                    struct tenure *mine,
                                    char why[ENGINE_WHY_BYTES]);
    /* Writes the row of this node, then reads the owner and at most `max_bytes` of the log after node->at.n (one turn at least, if there is one). Turns are whole and ascend; the first
     * one may be later than at.n + 1, if what was before it is forgotten. Use nothing of it unless ENGINE_DONE. The rows belong to the engine until its next call. To judge: max_bytes is 0, and no turn is read. */
    enum engine_result (*follow)(struct engine *e, const struct node *me,
                                 size_t max_bytes, struct owner *owner,
                                 const struct log_row **rows, size_t *count,
                                 char why[ENGINE_WHY_BYTES]);
    /* Sets claim = beat, if history, epoch and beat are those of `seen`, so that others see that a takeover is near, and proves that this node can write. */
    enum engine_result (*claim)(struct engine *e, const struct owner *seen,
                                char why[ENGINE_WHY_BYTES]);

    /* Snapshots. The active writes parts one by one, and the manifest last; each compares history, epoch and holder. `n`: of the position that the
     * snapshot has. A part with this number is replaced. */
    enum engine_result (*put_snapshot)(struct engine *e,
                                       const struct tenure *mine,
                                       const struct position *at, int64_t part,
                                       struct bytes sealed,
                                       char why[ENGINE_WHY_BYTES]);
    /* Reads a part of the newest snapshot that has a manifest; part -1 is the manifest. ENGINE_NO_ROW: there is none. *n, *epoch: of the snapshot; a newer one may come between two
     * calls, so compare them. `sealed` is emptied first. It also writes into the row of this node, so what was read is proved. */
    enum engine_result (*get_snapshot)(struct engine *e, int64_t part,
                                       int64_t *n, int64_t *epoch,
                                       struct buf *sealed,
                                       char why[ENGINE_WHY_BYTES]);
    /* Deletes at most 100 log rows up to n, and as many of snapshots older than n. *more: call it again. */
    enum engine_result (*forget)(struct engine *e, const struct tenure *mine,
                                 int64_t n, bool *more,
                                 char why[ENGINE_WHY_BYTES]);
    /* Deletes at most 100 parts of snapshots at turns between these two, exclusively: what was begun after the newest one with a manifest (`after`; -1: there is none) and
     * has none. *more: call it again. */
    enum engine_result (*forget_unfinished)(struct engine *e,
                                            const struct tenure *mine,
                                            int64_t after, int64_t before,
                                            bool *more,
                                            char why[ENGINE_WHY_BYTES]);

    /* Slices of a turn that is appended afterwards (large_turn.h). They are kept until the log rows of turn n are forgotten. A slice with this number is replaced. */
    enum engine_result (*put_slice)(struct engine *e, const struct tenure *mine,
                                    const struct position *at, int64_t slice,
                                    struct bytes sealed,
                                    char why[ENGINE_WHY_BYTES]);
    /* Of turn n, which this epoch has appended. A read: the chain of the turn proves it. `sealed` is emptied first. ENGINE_NO_ROW: it is forgotten. */
    enum engine_result (*get_slice)(struct engine *e, int64_t n, int64_t epoch,
                                    int64_t slice, struct buf *sealed,
                                    char why[ENGINE_WHY_BYTES]);
    /* Deletes at most 100 slices of turns that are not in the log. *more: call it again. */
    enum engine_result (*forget_slices)(struct engine *e,
                                        const struct tenure *mine, bool *more,
                                        char why[ENGINE_WHY_BYTES]);

    /* Begins a history for this process at `at` (n is 0): makes the owner row, with epoch 0, beat 0, claim -1 and an empty holder. ENGINE_NO_ROW: there is
     * one, or there are rows of a former history, which clear() deletes. */
    enum engine_result (*begin_history)(struct engine *e,
                                        const struct position *at, int schema,
                                        char why[ENGINE_WHY_BYTES]);
    /* Ends the history of this process: deletes the owner row, if history, epoch, holder, last, chain and beat are those of `seen`. No statement of that history changes a row
     * afterwards; an active that is still there ends with EXIT_STORAGE (74) at its next one. The caller knows that nobody sends any more: `seen` has no holder, or the
     * caller has the lock of the holder's host, or it has seen the same beat for takeover_after. The other rows stay until clear(). */
    enum engine_result (*end_history)(struct engine *e,
                                      const struct owner *seen,
                                      char why[ENGINE_WHY_BYTES]);
    /* Deletes what an ended history has left: at most 100 rows of the log, as many of snapshots, and those of hosts. *more: call it again. ENGINE_NO_ROW: this process has an
     * owner row, and nothing is deleted. */
    enum engine_result (*clear)(struct engine *e, bool *more,
                                char why[ENGINE_WHY_BYTES]);

    /* Three reads, which prove nothing; what they give belongs to the engine until its next call. nodes(): the other hosts of this process, by name. It takes at most
     * an eighth of hold, and as long to connect. */
    enum engine_result (*nodes)(struct engine *e,
                                const struct engine_node **nodes, size_t *count,
                                char why[ENGINE_WHY_BYTES]);
    /* Whether the row was released, for this host or any: then follow() at once. Takes as long as nodes(). NULL: the engine has no such call, and a
     * standby sees a release when it follows. */
    enum engine_result (*is_free)(struct engine *e, bool *yes,
                                  char why[ENGINE_WHY_BYTES]);
    /* Each process that has an owner row, by name. With accept_weak it also reads from an engine whose settings are weak. */
    enum engine_result (*overview)(struct engine *e,
                                   const struct engine_store **stores,
                                   size_t *count, char why[ENGINE_WHY_BYTES]);
};

extern const struct engine_ops engine_postgres;

/* The statements that make the tables and grant what a process needs, as text for the administrator; static. */
const char *engine_postgres_ddl(void);

#endif
