/* The callbacks that main.c puts into its plan. */
#ifndef SEQUENCER_LOOP_PARTS_H
#define SEQUENCER_LOOP_PARTS_H

#include "sequencer.h"

gr_rc loop_apply(void *self, const char *from, uint64_t n, struct bytes msg);
bool loop_load(void *self, const char *peer, uint64_t n, int kind, int64_t ref,
               struct buf *out);
void loop_set_back(void *self, const char *peer, bool we_are_older);
bool loop_urgent(void *self, const char *peer);
bool loop_has_time(void *self);
void loop_frame(void *self, int kind, struct bytes frame);
void loop_open(void *self);
void loop_restored(void *self);
void loop_begin(void *self);
int loop_work(void *self);
void loop_tell(void *self);
void loop_undo(void *self);
void loop_reload(void *self, struct settings *fresh);
void loop_close(void *self);

#endif
