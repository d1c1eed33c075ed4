/* show_order: the control commands `release`, `gaps`, `close_gap`, `workspace` and
 * `workspaces`. */
#ifndef SEQUENCER_SHOW_ORDER_H
#define SEQUENCER_SHOW_ORDER_H

#include "control.h"

json_t *show_release(void *self, json_t *args, char why[200]);
json_t *show_gaps(void *self, json_t *args, char why[200]);
/* The command `listed`. */
json_t *show_listed(void *self, json_t *args, char why[200]);
json_t *show_close_gap(void *self, json_t *args, char why[200]);
json_t *show_workspace(void *self, json_t *args, char why[200]);
json_t *show_workspaces(void *self, json_t *args, char why[200]);

#endif
