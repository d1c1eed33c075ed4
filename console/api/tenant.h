/* tenant: confines a request with the token of a workspace to that workspace. For the files of this
 * folder only.
 *
 * The declaration of a command says how it is confined (enum tenant_use); a command whose
 * declaration says nothing is refused. The sequencer is asked what belongs to the workspace before
 * any process is asked for the command. What belongs to others gets the same response as what
 * does not exist. */
#ifndef CONSOLE_TENANT_H
#define CONSOLE_TENANT_H

#include "api_request.h"

struct tenant_limits;

struct tenant_limits *tenant_limits_new(void);
void tenant_limits_free(struct tenant_limits *t);

/* Whether the token of a workspace sends not too many requests, whatever they ask; if not, responds. */
bool tenant_may_ask(struct api_request *r);
/* Whether it may use the command at all, and not too often; if not, responds. */
bool tenant_permits(struct api_request *r);
/* The arguments are read: sets `tenant`, checks what the request names, and then runs the command, or
 * responds. */
void tenant_begin(struct api_request *r);

/* Takes from a list of objects those whose `endpoint` is not in `own`, a list of names. */
void tenant_keep(json_t *list, const json_t *own);

/* The step of GET /dead-letters for a workspace. */
api_step tenant_dead_letters;

#endif
