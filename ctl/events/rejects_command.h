/* rejects_command: requests that ingress refused. */
#ifndef CTL_REJECTS_COMMAND_H
#define CTL_REJECTS_COMMAND_H

#include "ask.h"
#include "ctl.h"
#include "list.h"

/* As whom `grapnel send` comes. */
#define SEND_AGENT "grapnel-send/" GRAPNEL_VERSION

/* Why ingress refused, with 401, what `grapnel send` brought last for this
 * source. The caller's; NULL: no ingress can say it. */
char *rejects_reason(struct ctl *c, const char *source);

/* Those whose headers name this delivery of the provider's, newest first, of each
 * ingress that can be asked. The caller's. */
json_t *rejects_with_id(struct ctl *c, const struct processes *p,
                        const char *id);
extern const struct column rejects_columns[];

#endif
