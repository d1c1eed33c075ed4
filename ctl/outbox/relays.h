/* relays: the relays that a command of `grapnel outbox` is about. */
#ifndef CTL_RELAYS_H
#define CTL_RELAYS_H

#include "ctl.h"

/* The relay that is named, or the only one. NULL: *code is set. */
const struct relay *find_relay(struct ctl *c, int *code);

#endif
