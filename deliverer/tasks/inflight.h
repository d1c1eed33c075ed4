/* inflight: records which tasks are in flight, in a file that survives a crash of the process.
 *
 * state_dir/NAME.inflight is mapped into memory. Each attempt writes to it, which costs
 * a few stores and no system call. Its contents survive kill -9 and a crash of this
 * process. They may not survive a power cut, but a task cannot cause that. The file only
 * decides which tasks are quarantined (quarantine.h): without it, or with wrong
 * contents, no task is lost and none is done twice. */
#ifndef DELIVERER_INFLIGHT_H
#define DELIVERER_INFLIGHT_H

#include "bounds.h"
#include "rc.h"

/* The state of a slot; these numbers are on disk. */
enum inflight_state {
    INFLIGHT_FREE = 0,
    INFLIGHT_BESIDE_OTHERS = 1, /* in flight beside other tasks */
    INFLIGHT_ALONE = 2,         /* the only task in flight */
    INFLIGHT_QUARANTINED = 3,   /* in flight at a crash, not tried since */
};

struct inflight_slot {
    uint32_t state;   /* enum inflight_state */
    uint32_t crashes; /* at which it was the only task in flight */
    uint64_t begun;   /* the number of its attempt, counted over all starts */
    uint64_t grant;
    char event_id[EVENT_ID_BYTES + 2];
};

struct inflight_file;

struct inflight {
    struct inflight_file *file; /* mapped; NULL: it could not be opened */
    int *free;                  /* free slots, a stack */
    int free_count;
};

enum { INFLIGHT_SLOTS = 16 * 1024, INFLIGHT_NONE = -1 /* no slot */ };

/* Tasks that were in flight at a crash are quarantined now. */
void inflight_open(struct inflight *f, const char *path);
void inflight_close(struct inflight *f);
/* The slots, INFLIGHT_SLOTS of them; NULL without a file. */
struct inflight_slot *inflight_slots(const struct inflight *f);
/* Crashes in a row after which tasks were in flight; reset when none is quarantined. */
uint32_t inflight_crashes(const struct inflight *f);
void inflight_reset_crashes(struct inflight *f);

/* A free slot for this task; INFLIGHT_NONE: none is left. */
int inflight_add(struct inflight *f, uint64_t grant, const char *event_id);
/* The slot's task is in flight (again). Here and below INFLIGHT_NONE does nothing. */
void inflight_begin(struct inflight *f, int slot, bool alone);
/* Another task begins while it is in flight. */
void inflight_not_alone(struct inflight *f, int slot);
/* Its outcome is committed: the slot is free. */
void inflight_end(struct inflight *f, int slot);

#endif
