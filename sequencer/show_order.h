/* show: answers on the control socket that stand in files of their own. */
#ifndef SEQUENCER_SHOW_H
#define SEQUENCER_SHOW_H

#include "control.h"

/* show_order.c */
json_t *show_release(void *self, json_t *args, char why[200]);
json_t *show_gaps(void *self, json_t *args, char why[200]);
json_t *show_close_gap(void *self, json_t *args, char why[200]);
json_t *show_workspaces(void *self, json_t *args, char why[200]);

#endif
