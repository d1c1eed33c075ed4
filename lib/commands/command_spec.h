/* command_spec: a control command, declared once: its name, parameters, reply, role and effect.
 *
 * The processes bind a function to each declaration (control.h). The check of requests and
 * replies, docs/CONTROL.md, the options of `grapnel`, the HTTP API and its OpenAPI document are
 * made from the same declarations. Pure data and pure functions: nothing here has a state, and
 * everybody may call it at any time. commands.h lists all declarations. */
#ifndef COMMANDS_COMMAND_SPEC_H
#define COMMANDS_COMMAND_SPEC_H

#include "alloc.h"
#include "rc.h"
#include <jansson.h>

enum value_type {
    VALUE_TEXT,    /* UTF-8; min and max count characters */
    VALUE_PATTERN, /* a text in which * stands for any text */
    VALUE_CHOICE,  /* one of `choices` */
    VALUE_INTEGER, /* from min to max */
    VALUE_NUMBER,
    VALUE_BOOL,
    VALUE_TIME, /* RFC 3339 in UTC with milliseconds; only in replies */
    VALUE_TIME_MS, /* milliseconds since 1970; its name ends with _ms. HTTP and the command line
                    * name it without _ms, and take "24h" or an RFC 3339 time */
    VALUE_DURATION_MS, /* milliseconds; its name ends with _ms. HTTP names it without _ms, and
                        * takes "20s" */
    VALUE_BASE64,
    VALUE_OBJECT, /* with `fields` */
    VALUE_LIST,   /* of `item`; min and max count items */
    VALUE_MAP,    /* an object with any names, whose values are as `item` */
    VALUE_ANY,    /* any JSON value */
};

enum value_flags {
    VALUE_REQUIRED = 1, /* an argument that must be there */
    VALUE_NULL = 2,     /* may be null */
    VALUE_ABSENT = 4,   /* of a reply: may be absent; the help says when */
    VALUE_SECRET = 8,   /* shown once: never in a log, an audit row or a stored
                         * reply. In a reply it is VALUE_NULL as well */
    VALUE_AHEAD = 16, /* a TIME_MS in the future: "90d" is that long from now */
    VALUE_LOCAL = 32, /* an argument that HTTP does not have */
    /* a version: HTTP takes it from the header If-Match, which it requires */
    VALUE_IF_MATCH = 64,
    VALUE_DURATION = 128, /* a TEXT such as "24h" */
};

/* A parameter, a field, or an item of a list. */
struct value {
    const char
        *name; /* NULL ends a table; of an item and of a reply: any text */
    enum value_type type;
    unsigned flags;
    const char *help;           /* a phrase: "of this workspace" */
    int64_t min, max;           /* max 0: no bound, or the usual one */
    int64_t otherwise;          /* INTEGER: the default; 0: none */
    const char *const *choices; /* ends with NULL; of a PATTERN: known texts */
    const struct value *fields, *item; /* fields end with a NULL name */
};

/* Who may use a command; each role may also do what the ones before it may. */
enum role {
    /* of a token, not of a command: one workspace; enum tenant_use says what it may do */
    ROLE_WORKSPACE = -1,
    ROLE_VIEWER,   /* reads */
    ROLE_OPERATOR, /* everything but tokens and secrets */
    ROLE_ADMIN,
};

/* What the token of a workspace may do with a command over HTTP: nothing, unless the declaration
 * says how the command is confined to that workspace (console/api/tenant.h). With each of
 * these, an argument `tenant` of the command is set to the workspace. */
enum tenant_use {
    TENANT_NONE,      /* it is refused */
    TENANT_SHARED,    /* has nothing that belongs to a workspace */
    TENANT_LIST,      /* the process leaves out what is not `tenant`'s */
    TENANT_WORKSPACE, /* `workspace` is its own */
    TENANT_ENDPOINT,  /* `name` or `endpoint` is its own endpoint */
    TENANT_CREATES,   /* makes an endpoint of `tenant` */
    TENANT_EVENT,     /* `id` is an event of its own */
    TENANT_DELIVERY, /* `event` is its own event, `endpoint` its own endpoint */
    TENANT_ATTEMPT,  /* `id` has both */
    /* `id` is a dead letter of its own endpoint, and the process compares `tenant`; `to`, if
     * given, is its own endpoint */
    TENANT_DEAD_LETTER,
    TENANT_DEAD_LETTERS, /* a list of those, from which the API takes others out */
    TENANT_STREAM,       /* the stream leaves out what is not its own */
};

enum command_flags {
    COMMAND_ACTS = 1,       /* changes something */
    COMMAND_REPEATABLE = 2, /* a second call changes nothing more */
    COMMAND_LATER = 4, /* replies when long work has ended; one at a time … */
    COMMAND_SEVERAL = 64, /* … or several */
    COMMAND_LOCAL = 8, /* has no HTTP route: of use only on the same machine */
    /* Writes no row and wakes nothing, so it may run while a commit is being synced (control_read()). */
    COMMAND_READS = 128,
    COMMAND_MEMORY =
        16, /* its effect is in memory: a full disk does not undo it */
    COMMAND_FREQUENT =
        32, /* an act of consumers, too frequent for audit rows; its function
                            * itself recognises a repeat by its key */
};

/* A method and path of the HTTP API below /api/v1; a name in braces is a parameter. */
struct command_route {
    const char *method, *path;
};

struct command_spec {
    const char *name;
    const char *process; /* "sequencer", or "every" */
    const char *also;    /* other kinds of processes that have it, with blanks
                       * between; NULL: none */
    const char *help;    /* sentences, for people */
    const struct value *args;     /* ends with a NULL name; NULL: none */
    struct value reply;           /* an object or a list */
    const struct value *or_reply; /* another form of it; NULL: none */
    enum role role;
    enum tenant_use tenant;
    unsigned flags;
    struct command_route routes[2];
    const char *rows;       /* the field of the reply with the rows; or NULL */
    const char *media_type; /* of the HTTP response; NULL: JSON */
};

/* The usual bounds of an argument whose declaration has none. */
enum {
    VALUE_TEXT_MAX = 4096,
    VALUE_PATTERN_MAX = 256, /* each row of a search is matched against it */
};

/* Whether a request has only arguments that are declared, with their types and within their
 * bounds, and all that are required. If not, `why` is a sentence that names the argument. */
bool command_args_fit(const struct command_spec *c, const json_t *args,
                      char why[200]);
/* Whether a reply is what is declared: no field is missing, and none is undeclared. */
bool command_reply_fits(const struct command_spec *c, const json_t *reply,
                        char why[200]);
/* Whether one value is as declared; `where` names it in `why`. */
bool value_fits(const struct value *v, const json_t *j, const char *where,
                char why[200]);
/* How many characters a TEXT or PATTERN may have as an argument. */
int64_t value_text_max(const struct value *v);
/* The argument with this name, or NULL. */
const struct value *command_arg(const struct command_spec *c, const char *name);
/* The name of an argument on the command line and in HTTP: without _ms. The caller's. */
char *value_public_name(const struct value *v);
/* A deep copy, the caller's, in which each secret is null. */
json_t *value_without_secrets(const struct value *v, const json_t *j);
/* "viewer" … */
const char *role_name(enum role role);
/* A word for people: "a number", "true or false". */
const char *value_type_name(const struct value *v);

/* Writes the tables of docs/CONTROL.md. */
void commands_document(struct buf *out);

#endif
