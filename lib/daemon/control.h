/* control: a daemon's control socket (ROUTER, run_dir/NAME.control): one JSON
 * document asks, one replies. docs/CONTROL.md describes it.
 *
 *   {"v":1,"ask":"trace","args":{"id":"evt_…"}}
 *   {"v":1,"ok":true,"reply":{…}}     {"v":1,"ok":false,"error":"…"}
 *
 * An unknown command or argument is refused with a list of the known ones. Replies
 * are sent after the commit of the turn that made them. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "loop.h"
#include "rc.h"
#include <jansson.h>

struct control;

/* Handle one request inside the turn's transaction. Returns the reply (the
 * caller's now), or NULL with `why` filled in. To reply later, return
 * control_later(): then control_reply() must be called in a later turn. */
typedef json_t *control_fn(void *self, json_t *args, char why[200]);

struct control_command {
    const char *name;
    const char *args; /* "id note": those it knows, "" for none; all others are
                         refused */
    const char *help;
    control_fn *fn;
};

/* `commands` ends with a NULL name. `ping` is built in: {"process","version",
 * "pid","started_at"}. */
struct control *control_open(const char *run_dir, const char *name,
                             const struct control_command *commands,
                             void *self);
void control_close(struct control *c);
zsock_t *control_socket(struct control *c);

/* Inside the transaction: handle requests, at least one, until the turn is spent, so
 * that queries do not delay those that wait for its commit. true: there is more. */
bool control_work(struct control *c, const struct loop *loop);
/* The turn was rolled back: its requests get the reply "disk full". */
void control_undo(struct control *c);
/* After the commit: send the replies. */
void control_flush(struct control *c);

/* From inside a control_fn: which of `commands` is being asked. */
size_t control_asked(const struct control *c);
/* From inside a control_fn: keep the request open. One at a time per process: a
 * control_fn must refuse a second one (NULL, with `why`) while control_waiting(). */
json_t *control_later(struct control *c);
bool control_waiting(const struct control *c);
void control_reply(struct control *c, json_t *reply, const char *why);

/* Ask (the CLI's side): blocks up to timeout_ms. Returns the reply (caller
 * frees), or NULL with the reason in `why`; *unreachable: no process replied (else it
 * refused). */
json_t *control_ask(const char *run_dir, const char *process, const char *ask,
                    json_t *args, int timeout_ms, bool *unreachable,
                    char why[200]);
/* The same in two steps, to ask several processes at once: the socket to poll (NULL: an
 * error), then its reply, for which control_take() waits up to timeout_ms.
 * control_take() closes the socket. */
zsock_t *control_send(const char *run_dir, const char *process, const char *ask,
                      json_t *args, int timeout_ms);
json_t *control_take(zsock_t *req, bool *unreachable, char why[200]);

/* For callers that must not wait: the text of a request (the caller's; borrows args), and
 * the contents of a reply's text, as above. */
char *control_question(const char *ask, json_t *args);
json_t *control_reading(struct bytes text, char why[200]);

#endif
