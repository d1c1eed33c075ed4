/* control: a daemon's control socket (ROUTER, run_dir/NAME.control): one JSON
 * document asks, one replies. docs/CONTROL.md describes it.
 *
 *   {"v":1,"ask":"trace","args":{"id":"evt_…"}}
 *   {"v":1,"ok":true,"reply":{…}}     {"v":1,"ok":false,"code":"not_found","error":"…"}
 *
 * A request that is not as its command is declared (command_spec.h) is refused, and the error
 * says why. In a debug build, a reply that is not as declared ends the process. Replies
 * are sent after the commit of the turn that made them; a crash before it leaves the
 * request without a reply, and nothing of it on disk. Acts have an audit row, and with an
 * idempotency key their replies are stored (acts.h). */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "acts.h"
#include "cluster.h"
#include "command_spec.h"
#include "loop.h"
#include "rc.h"
#include <jansson.h>

struct control;

/* Handles one request, whose arguments are as declared, inside the turn's transaction. Returns the reply, which the caller
 * owns from now on, or NULL with the reason in `why`. To reply later, return
 * control_later(); then control_reply() must be called in a later turn. */
typedef json_t *control_fn(void *self, json_t *args, char why[200]);

/* `code` of an error. */
enum control_code {
    CONTROL_REFUSED,     /* refused */
    CONTROL_NOT_FOUND,   /* not_found */
    CONTROL_INVALID,     /* invalid: the request, whatever the state */
    CONTROL_IN_PROGRESS, /* in_progress: ask again later */
    CONTROL_KEY_REUSED,  /* key_reused: another request had this key */
    CONTROL_CHANGED,     /* changed: it is another version than the request's */
    CONTROL_DISK_FULL,   /* disk_full: nothing was changed */
    CONTROL_BUSY,        /* busy: a bound is reached; ask again later */
    CONTROL_LIMITED,     /* limited: too many of them exist; ask again later */
    CONTROL_NOT_OWNER,   /* not_owner: another deliverer may have it */
};
/* In a control_fn that will return NULL: writes `why`, with this code. What writes `why`
 * itself has the code `refused`. */
void control_fail(char why[200], enum control_code code, const char *fmt, ...)
    GR_PRINTF(3, 4);

struct control_command {
    const struct command_spec *spec; /* NULL ends a table */
    control_fn *fn;
};

/* Binds the socket. `ping` is built in: {"process","version","pid","started_at"}. */
struct control *control_open(const char *run_dir, const char *name);
/* Adds a table of commands, which is borrowed until the end. They are called with `self`. */
void control_add(struct control *c, const struct control_command *commands,
                 void *self);
/* From now on acts leave rows; `acts` is borrowed until the end. */
void control_record(struct control *c, struct acts *acts);
/* Ends the process if it does not bind each command that is declared for its kind, or binds one
 * that is declared for another. */
void control_expect(const struct control *c, const char *process);
void control_close(struct control *c);
zsock_t *control_socket(struct control *c);
/* As ipc_bind_again(). */
int control_bind_again(struct control *c, const char *run_dir);
/* From now on consoles on other hosts may ask, too (docs/CLUSTER.md). `cluster` is closed after `c`. Returns the socket
 * for the loop. Its messages have a number where those of a REQ have nothing, so that a console can ask many
 * things at once over one connection:
 *
 *   [number, empty, request] → [number, empty, reply]
 *   ["metrics"] → ["metrics", frame] for each frame that is published in the next CONTROL_METRICS_MS */
zsock_t *control_join(struct control *c, struct cluster *cluster);
/* After a reload of the cluster: binds that port again when this process has a new key. */
void control_rejoin(struct control *c);
enum { CONTROL_METRICS_MS = 10 * 1000 };
#define CONTROL_METRICS "metrics"
/* Sends a frame of metrics to the consoles on other hosts that want them. */
void control_publish(void *c, struct bytes frame);

/* Inside the transaction, after messages: handles requests until the turn is spent, and for 2 ms in any
 * case. true: there are more. If the turn has rows, so that its commit has to be synced, it handles them
 * only if control_read() left one that changes something, or the turn before was rolled back; the others
 * are left to control_read(), as peers wait for this commit. */
bool control_work(struct control *c, struct loop *loop);
/* While a commit is being synced, outside of any transaction: handles one request that only reads.
 * Its reply leaves after the commit, as it may show what that commit wrote. false: none waits, or the
 * next one changes something; it waits for control_work(). */
bool control_read(struct control *c);
/* While a commit lasts long: requests that have come get this error (`busy`) at once, and nothing is done for them. Replies that
 * wait for the commit still do. */
void control_refuse(struct control *c, const char *why);
/* Whether a request waits; it need not be one that only reads. */
bool control_waits(const struct control *c);
/* The turn was rolled back: its requests get the error "the disk is full", but for those
 * whose effect is not in the database. */
void control_undo(struct control *c);
/* After the commit: sends the replies. */
void control_flush(struct control *c);
/* A control_reply(), or a request, waits for the next turn, which should begin at once. */
bool control_reply_due(const struct control *c);

/* From inside a control_fn: who asks, as the audit row has it. */
const char *control_actor(const struct control *c);
/* From inside a control_fn: keeps the request open. There is at most one in a process: a
 * control_fn must refuse a second one (NULL, with `why`) while control_waiting(). */
json_t *control_later(struct control *c);
bool control_waiting(const struct control *c);
/* At any time in a turn: sent after the commit of the next control_work(). */
void control_reply(struct control *c, json_t *reply, const char *why);

/* From inside a control_fn whose effect is not only in the database: what the reply says if the turn is rolled back. A constant. */
void control_if_undone(struct control *c, const char *says);

/* The same for a command of which many requests may be open, which the caller bounds: *held is the
 * request, until control_release(), inside the transaction of any turn, or control_drop(). */
struct control_held;
json_t *control_hold(struct control *c, struct control_held **held);
/* Takes `reply` over; NULL: the error. Frees `held`. */
void control_release(struct control *c, struct control_held *held,
                     json_t *reply, enum control_code code, const char *why);
void control_drop(struct control_held *held); /* without a reply */
/* From inside a control_fn, or just before control_release(): if the reply cannot be sent
 * because its client has gone, control_unsent() returns this number (not 0), once. */
void control_tag(struct control *c, int64_t tag);
int64_t control_unsent(struct control *c); /* 0: no more */
/* From inside a control_fn: who asks. Borrowed from the request. */
const struct act_by *control_by(const struct control *c);

/* For clients: asks and waits up to timeout_ms. `by` says who asks (acts.h), for commands with
 * COMMAND_ACTS; NULL: unknown. Returns the reply, which the caller frees, or NULL with the
 * reason in `why`; *unreachable: no process replied (otherwise it refused). */
json_t *control_ask(const char *run_dir, const char *process, const char *ask,
                    json_t *args, json_t *by, int timeout_ms, bool *unreachable,
                    char why[200]);
/* The same in two steps, to ask several processes at once: the socket to poll (NULL: an
 * error), then its reply, for which control_take() waits up to timeout_ms.
 * control_take() closes the socket. */
zsock_t *control_send(const char *run_dir, const char *process, const char *ask,
                      json_t *args, json_t *by, int timeout_ms);
json_t *control_take(zsock_t *req, bool *unreachable, char why[200]);
/* The same, with the code of an error; of a text that is not a reply, and if there is none, it is empty. */
enum { CONTROL_CODE_BYTES = 32 };
json_t *control_take_coded(zsock_t *req, bool *unreachable,
                           char code[CONTROL_CODE_BYTES], char why[200]);

/* Codes of errors that do not come from the process, but from the console's proxy, which connects to it on
 * another host: the process got nothing; or the connection ended before the reply. */
#define CONTROL_UNREACHABLE "unreachable"
#define CONTROL_LOST        "lost"
/* The text of such an error, the caller's. */
char *control_error(const char *code, const char *why);

/* For clients that must not wait: the text of a request (owned by the caller; borrows
 * args and by), and the reply in a text, as above, with the code of an error. */
char *control_question(const char *ask, json_t *args, json_t *by);
/* The text of the reply, which is an object, inside `text`, for clients that pass it on: faster than a tree. false:
 * ask control_reading(). */
bool control_reply_in(struct bytes text, struct bytes *reply);
json_t *control_reading(struct bytes text, char code[CONTROL_CODE_BYTES],
                        char why[200]);

#endif
