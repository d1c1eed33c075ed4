/* acts: the audit row of each act, and the stored replies that make a repeated request harmless.
 *
 * control.c calls it for commands with COMMAND_ACTS. The row and the record are written in the
 * transaction of the act: a crash or a full disk leaves all of them or nothing. A repeat with
 * the same owner, key and digest within 24 hours gets the stored reply, and changes nothing.
 *
 * The effect of some acts is not in the database (COMMAND_LATER, COMMAND_MEMORY), so a full
 * disk does not undo it. Their rows are kept in memory until they fit; a row that does not fit
 * before the process stops is logged, and lost. An act that replies
 * later has a row when it starts and one when it has ended. While it runs, a repeat
 * is refused. After a crash its key is unknown, so that a repeat runs it again.
 *
 * Rows are chained by keyed hashes (audit_chain.h), in the same transaction.
 *
 * Secrets (VALUE_SECRET) are neither in rows nor in records. */
#ifndef DAEMON_ACTS_H
#define DAEMON_ACTS_H

#include "audit_key.h"
#include "command_spec.h"
#include "retention.h"

enum {
    ACTS_KEY_MAX = 1024, /* characters of a key */
    AUDIT_MAX_ROWS = 100000,
    AUDIT_KEEP_DAYS = 400,
};

struct acts;

/* The keys are borrowed until acts_close(). */
struct acts *acts_open(struct db *db, struct retention *retention,
                       const char *process, const struct audit_keys *keys);
void acts_close(struct acts *a);

/* Who asks: the object `by` of a control request. All texts are borrowed from the request;
 * those that it does not have are "". */
struct act_by {
    const char *actor;
    const char *role, *request_id;    /* for the row */
    const char *owner, *key, *digest; /* all or none */
};
/* `by` NULL: reads the actor from args.who. false: `why` says what is wrong. */
bool act_by_read(struct act_by *by, const json_t *doc, const json_t *args,
                 char why[200]);

enum act_known {
    ACT_NEW,    /* or it has no key */
    ACT_STORED, /* *reply is its reply, owned by the caller */
    ACT_OTHER,  /* another request had this key */
    ACT_RUNS,
};
enum act_known acts_look(struct acts *a, const struct act_by *by, char **reply);

/* What was asked. Everything is borrowed. */
struct act {
    const struct command_spec *spec;
    const json_t *args;
    struct act_by by;
    int64_t now_ms;
};
/* The act was done or refused. `reply`: the document to store for its key; NULL: none. */
void acts_done(struct acts *a, const struct act *act, const char *outcome,
               const json_t *reply);
/* The same for one that replies later: acts_ended() ends it, by the number that acts_began() returns. The
 * caller bounds how many there are. */
int64_t acts_began(struct acts *a, const struct act *act);
void acts_ended(struct acts *a, int64_t number, int64_t now_ms,
                const char *outcome, const json_t *reply);

/* In the transaction that adopts a restored copy (db.h): a row that says so. `actor` and `from`
 * are "" if they are not known. */
void acts_restored(struct acts *a, int64_t now_ms, int64_t copied_ms,
                   bool by_grapnel, const char *actor, const char *from);
/* At the start, outside of a transaction: begins the chain of a database without one, and adds a
 * row if the key is not that of the newest row. */
void acts_begin(struct acts *a, int64_t now_ms);

/* Erasure of a workspace: deletes content and salt of the rows that are `chosen`; the chain still
 * verifies. Reads at most `most` rows after number *after (at first 0), which it moves on. false:
 * it has reached the newest row. Inside a transaction; `args` is NULL if it is not JSON. */
typedef bool acts_chosen_fn(void *self, const char *command,
                            const json_t *args);
bool acts_erase_content(struct acts *a, int64_t *after, int most,
                        acts_chosen_fn *chosen, void *self);

/* Once in each turn, as the last in its transaction. Deletes old rows in small steps. Costs
 * one comparison when nothing is due. */
void acts_work(struct acts *a, int64_t mono_ms, int64_t now_ms);
/* After the commit, or after a rollback. */
void acts_flush(struct acts *a);
void acts_undo(struct acts *a);

/* Whether a string in `v` is one of `about`, or contains the part of an event's id that ids made of
 * it have, too. Pure. */
bool acts_names(const json_t *v, const json_t *about);
/* The command `audit`: a page of rows, newest first. */
json_t *acts_audit(void *self, json_t *args, char why[200]);
/* The commands `audit_verify` and `audit_head`. */
json_t *acts_verify(void *self, json_t *args, char why[200]);
json_t *acts_head(void *self, json_t *args, char why[200]);

/* The tables, which each process's schema contains. */
extern const char daemon_acts_sql[];

#endif
