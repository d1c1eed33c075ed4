/* rejects: what the door refused. */
#ifndef CTL_REJECTS_H
#define CTL_REJECTS_H

#include "ctl.h"

/* As whom `grapnel send` comes. */
#define SEND_AGENT "grapnel-send/" GRAPNEL_VERSION

/* Why the door refused, with 401, what `grapnel send` brought last for this
 * source. The caller's; NULL: no ingress can say it. */
char *rejects_reason(struct ctl *c, const char *source);

#endif
