/* api_request: one request to the management API, from its arguments to its response. For the
 * files of this folder only.
 *
 * A command of HTTP is a function that is called once at the beginning, and again each time when
 * all processes that it asked have replied (or failed): it asks more, or responds. Between two
 * calls it keeps its place in `stage` and what it has learned in `state`. */
#ifndef CONSOLE_API_REQUEST_H
#define CONSOLE_API_REQUEST_H

#include "api.h"
#include "authorization.h"
#include "portal_grants.h"
#include "process_client.h"
#include "processes.h"
#include "rate.h"
#include "routes.h"
#include "sessions.h"
#include "web.h"

struct api_request;
typedef void api_step(struct api_request *r);

struct api_request {
    TAILQ_ENTRY(api_request) link; /* in api.all */
    TAILQ_ENTRY(api_request) ready_link;
    struct api *api;
    struct web_request *web;
    /* Of its token, or of the session's; "": it has a session that a link began, or a token of the portal. */
    char digest[TOKEN_DIGEST_BYTES + 1];
    bool of_store;               /* the sequencer may have this token */
    struct session *session;     /* its cookie's; NULL: it has a token */
    struct portal_grant *portal; /* its token, if that is one of the portal */
    struct api_actor actor;
    api_step *authorized; /* is called when the actor is known */
    struct route_match route;
    const struct command_spec *command; /* of the route */
    json_t *args;                       /* they fit the declaration */
    json_t *by; /* of a change: who asks, and its idempotency key (acts.h) */
    api_step *step;
    int stage;
    void *state;
    void (*state_free)(void *state);

    /* What was asked last; the step that is called next reads it. */
    struct process_question **asked;
    size_t asked_count, open_count;
    bool ready, responded;
    bool waits;    /* it may be kept open: waiting.c looks after it */
    bool checking; /* `check` asks for its token again */
    struct process_question check;
    int64_t again_ms;        /* mono: api_again_in(); 0 */
    size_t tenant_endpoints; /* that the request names, see tenant.c */
};

struct api {
    struct daemon *daemon;
    struct process_client *processes;
    struct routes *routes;
    struct failures *failures;
    struct token_cache *tokens;
    struct tenant_limits *tenants;
    struct sessions *sessions;
    struct portal_grants *portal;
    struct live *live;
    TAILQ_HEAD(, api_request) all, ready;
    int open;              /* requests without a response */
    int64_t look_ms;       /* mono: look at those that wait then */
    int64_t sessions_ms;   /* mono: look at sessions then */
    int64_t portal_ms;     /* mono: look at erased workspaces then */
    struct bucket guesses; /* questions for tokens from refused addresses */
};

/* Ask a process for `command`; takes args over (NULL: none). The step is called when all that it
 * asked has ended. The time limit follows from the command. */
void api_ask(struct api_request *r, const char *process,
             const struct command_spec *command, json_t *args);
/* The same without arguments, for 1.5 s: a process that does not respond is no error then. */
void api_ask_briefly(struct api_request *r, const char *process,
                     const struct command_spec *command);
/* The same with a time limit, for a process that may keep the request open: it uses none of the
 * connections of other requests, and ends when its client has gone. */
void api_ask_waiting(struct api_request *r, const char *process,
                     const struct command_spec *command, json_t *args,
                     int timeout_ms);
/* Call the step again in so many ms, though it asked nothing. */
void api_again_in(struct api_request *r, int ms);
/* Forgets the replies to the last questions, before the next ones. */
void api_forget(struct api_request *r);
/* The reply to the last question with this number; NULL: it failed, or was not asked. */
json_t *api_reply(const struct api_request *r, size_t i);
/* Whether the question was answered; if not, responds with the error. */
bool api_answered(struct api_request *r, size_t i);
/* Whether its process gave no reply, so that what it has is missing. */
bool api_is_absent(const struct api_request *r, size_t i);
/* Whether it was refused for another reason than that the process does not have the thing. */
bool api_has_failed(const struct api_request *r, size_t i);
/* The names of processes of this kind in run_dir; the caller calls processes_fini(). */
void api_processes(struct api_request *r, const char *kind,
                   struct processes *out);
/* The same, with those that are stopped and have a database. false: it has responded with the error, and `out` is not set. */
bool api_processes_with_data(struct api_request *r, const char *kind,
                             struct processes *out);

/* Finds out who asks, by the token or the cookie, and goes on with r->authorized; or responds. */
void api_authorize(struct api_request *r);
/* The same, but only by a token in the header. */
void api_authorize_bearer(struct api_request *r);
/* The same for the token of r->digest and r->of_store. */
void api_find_actor(struct api_request *r);
/* Whether a change may come from here, in this form; if not, responds. */
bool api_change_is_fine(struct api_request *r);
/* Responds that the token, or the secret of a link, is wrong, and counts that. */
void api_refuse_wrong(struct api_request *r);
bool api_is_read(const struct web_request *w);
/* Whether a page of another site made a browser send it. */
bool api_is_cross_site(const struct web_request *w);
/* Whether this address was wrong too often; then it responds. */
bool api_refuse_address(struct api_request *r);

/* sign_in.c: /api/session, and the cookie */
bool sign_in_has(const char *path);
void sign_in_begin(struct api_request *r);
/* Whether the request has the cookie of a session, and may use it; if it may not, responds. */
enum sign_in_result {
    SIGN_IN_NO_SESSION,
    SIGN_IN_SESSION,
    SIGN_IN_RESPONDED
} sign_in_find_session(struct api_request *r);
/* Ends sessions that have expired, with their streams. Returns how long until it has to be called
 * again, in ms. */
int sign_in_work(struct api *a);
/* Ends the session of the request, whose token is not valid any more. */
void sign_in_lost(struct api_request *r);

/* portal.c: /api/portal, and the tokens of the portal */
bool portal_has(const char *path);
void portal_begin(struct api_request *r);
/* Whether the token, whose digest is in r->digest, has the form of those of the portal. Then it goes on with
 * r->authorized, or responds. */
bool portal_authorize(struct api_request *r, const char *token);
/* Ends tokens that have expired, or whose workspace was erased, with their streams. Returns how long until it has
 * to be called again, in ms. */
int portal_work(struct api *a);

/* The URL of this console, as its settings say; without a slash at the end. The caller's. */
char *api_own_url(const struct api *a);

/* Begins the command itself. */
void api_run(struct api_request *r);
/* Whether the request has the token of a workspace. */
bool api_is_tenant(const struct api_request *r);

/* Respond; once for each request. The reply is taken over, and it is as the request's command
 * declares: of a list, the rows become a page. */
void api_respond(struct api_request *r, json_t *reply);
void api_fail(struct api_request *r, enum web_error e, const char *field,
              const char *format, ...) GR_PRINTF(4, 5);
/* The response is in r->web. */
void api_send(struct api_request *r);

/* Responds that the token is not valid. */
void api_refuse_token(struct api_request *r);

/* Requests that wait, once a second: ends those whose clients have gone and whose tokens were revoked
 * (waiting.c). Returns how long until it has to be called again; -1: nothing waits. */
int waiting_work(struct api *a);
/* Whether the question was one of waiting_work(), which is then done. */
bool waiting_take(struct process_question *q);
void waiting_leave(struct api_request *r);

/* The functions of commands that need more than one process, by their files. */
api_step reject_list, reject_read, audit_list;         /* list_commands.c */
api_step event_read, attempt_read;                     /* event_read.c */
api_step job_list, job_read, job_cancel, replays_make; /* job_commands.c */
api_step process_list, process_read, relay_list;       /* process_commands.c */
api_step event_evidence;                               /* its own */
api_step event_payload, event_resend, endpoint_test, stats_read,
    event_routing_read, audit_verify_all; /* their own */
api_step pull_take, pull_end;             /* pull.c */
api_step stream_begin;                    /* stream.c */

#endif
