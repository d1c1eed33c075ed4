/* control: a daemon's control socket (ROUTER, run_dir/NAME.control): one JSON
 * document asks, one answers. docs/CONTROL.md describes it.
 *
 *   {"v":1,"ask":"trace","args":{"id":"evt_…"}}
 *   {"v":1,"ok":true,"answer":{…}}     {"v":1,"ok":false,"error":"…"}
 *
 * What it does not know it refuses, naming what it knows. Answers leave after
 * the commit of the turn that made them. */
#ifndef PROTO_CONTROL_H
#define PROTO_CONTROL_H

#include "loop.h"
#include "rc.h"
#include <jansson.h>

struct control;

/* Handle one request inside the turn's transaction. Returns the answer (the
 * caller's now), or NULL with `why` filled in. To answer later, return
 * control_later(): then control_answer() must be called in a later turn. */
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
struct control *control_open(void *zmq, const char *run_dir, const char *name,
                             const struct control_command *commands,
                             void *self);
void control_close(struct control *c);
void *control_socket(struct control *c);

/* Inside the transaction: handle what has come, at least one request and not
 * many, until the turn is spent: who waits for its commit is not kept waiting
 * by who reads. true: there is more. */
bool control_work(struct control *c, const struct loop *loop);
/* The commit was rolled back: what this turn would have answered is answered
 * with "disk full" instead. */
void control_undo(struct control *c);
/* After the commit: send the answers. */
void control_tell(struct control *c);

/* From inside a control_fn: which of `commands` is being asked. */
size_t control_asked(const struct control *c);
/* From inside a control_fn: keep the request open. One at a time per process;
 * a second one is refused with `why` by returning NULL yourself when
 * control_waiting() is true. */
json_t *control_later(struct control *c);
bool control_waiting(const struct control *c);
void control_answer(struct control *c, json_t *answer, const char *why);

/* Ask (the CLI's side): blocks up to timeout_ms. Returns the answer (caller
 * frees), or NULL: *unreachable says whether nobody answered (else it refused),
 * `why` says what. */
json_t *control_ask(void *zmq, const char *run_dir, const char *process,
                    const char *ask, json_t *args, int timeout_ms,
                    bool *unreachable, char why[200]);
/* The same in two steps, so that several can be asked at once: the socket to be
 * polled (NULL: it went wrong), and what came, waiting for it up to timeout_ms.
 * control_take() closes the socket. */
void *control_send(void *zmq, const char *run_dir, const char *process,
                   const char *ask, json_t *args, int timeout_ms);
json_t *control_take(void *req, bool *unreachable, char why[200]);

/* The two halves of that, for who must not wait: the text of a question (the
 * caller's; borrows args), and what an answer's text says, as above. */
char *control_question(const char *ask, json_t *args);
json_t *control_reading(struct bytes text, char why[200]);

#endif
