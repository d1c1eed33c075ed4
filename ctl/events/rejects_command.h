/* rejects_command: finds requests that ingress refused. For `send` and `trace`. */
#ifndef CTL_REJECTS_COMMAND_H
#define CTL_REJECTS_COMMAND_H

#include "ask.h"
#include "ctl.h"
#include "list.h"

/* The User-Agent of `grapnel send`. */
#define SEND_AGENT "grapnel-send/" GRAPNEL_VERSION

/* The reason of the last 401 that `grapnel send` got for this source. The caller's; NULL: no
 * ingress reports one. */
char *rejects_reason(struct ctl *c, const char *source);

/* The rejects with this delivery id of the provider, newest first, of each ingress that
 * responds. The caller's. */
json_t *rejects_with_id(struct ctl *c, const struct processes *p,
                        const char *id);
extern const struct column rejects_columns[];

#endif
