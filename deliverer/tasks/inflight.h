/* inflight: the tasks that are in flight, in a file that survives a crash of the process.
 *
 * state_dir/NAME.inflight is mapped into memory. Each attempt writes to it, which costs
 * a few stores and no system call. Its contents survive kill -9 and a crash of this
 * process. They may not survive a power cut, but no task causes one. The file only
 * decides which tasks are quarantined (quarantine.h): without it, or with wrong
 * contents, no task is lost and none is done twice. */
#ifndef DELIVERER_INFLIGHT_H
#define DELIVERER_INFLIGHT_H

#include "bounds.h"
#include "rc.h"

/* On disk, of a slot. */
enum inflight_state {
    INFLIGHT_FREE = 0,
    INFLIGHT_BESIDE_OTHERS = 1, /* in flight beside others */
    INFLIGHT_ALONE = 2,         /* in flight, and nothing beside it */
    INFLIGHT_QUARANTINED =
        3, /* was in flight at a crash, and not tried since */
};

struct inflight_slot {
    uint32_t state;   /* enum inflight_state */
    uint32_t crashes; /* that it was alone in */
    uint64_t begun;   /* which one it was, counted over all starts */
    uint64_t grant;
    char event_id[EVENT_ID_BYTES + 2];
};

struct inflight_file;

struct inflight {
    struct inflight_file *file; /* mapped; NULL: there is none */
    int *free;                  /* slots, a stack */
    int free_count;
};

enum { INFLIGHT_NONE = -1 /* no slot */ };

/* Tasks that were in flight at a crash are quarantined now. */
void inflight_open(struct inflight *f, const char *path);
void inflight_close(struct inflight *f);
/* The slots, INFLIGHT_SLOTS of them; NULL without a file. */
struct inflight_slot *inflight_slots(const struct inflight *f);
/* Crashes in a row after which tasks were in flight; reset when none is quarantined. */
uint32_t inflight_crashes(const struct inflight *f);
void inflight_reset_crashes(struct inflight *f);

int inflight_add(struct inflight *f, uint64_t grant, const char *event_id);
/* The slot's task is in flight (again). INFLIGHT_NONE is allowed here and below. */
void inflight_begin(struct inflight *f, int slot, bool alone);
/* Another task begins while it is in flight. */
void inflight_not_alone(struct inflight *f, int slot);
void inflight_end(struct inflight *f, int slot);

enum { INFLIGHT_SLOTS = 16 * 1024 };

#endif
