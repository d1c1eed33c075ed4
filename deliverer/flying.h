/* flying: what is in flight, where a crash of ours leaves it: a mapped file,
 * state_dir/NAME.flying. To write into it costs a few stores and no call, so
 * every attempt does. A kill -9 or a fault in our own code leaves all of it; a
 * power cut may not, but no task causes those. What is in it is only ever a
 * reason to be careful (care.h): without it, or with nonsense in it, nothing is
 * lost and nothing done twice. */
#ifndef DELIVERER_FLYING_H
#define DELIVERER_FLYING_H

#include "bounds.h"
#include "rc.h"

/* On disk, of a slot. */
enum flying_state {
    FLYING_FREE = 0,
    FLYING_COMPANY = 1, /* in flight beside others */
    FLYING_ALONE = 2,   /* in flight, and nothing beside it */
    FLYING_SUSPECT = 3, /* was in flight at a crash, and not tried since */
};

struct flying_slot {
    uint32_t state;   /* enum flying_state */
    uint32_t crashes; /* that it was alone in */
    uint64_t begun;   /* which one it was, counted over all starts */
    uint64_t grant;
    char event_id[EVENT_ID_BYTES + 2];
};

struct flying_file;

struct flying {
    struct flying_file *file; /* mapped; NULL: there is none */
    int *free;                /* slots, a stack */
    int free_count;
};

enum { FLYING_NONE = -1 /* no slot */ };

/* Those that were in flight are suspects now. */
void flying_open(struct flying *f, const char *path);
void flying_close(struct flying *f);
/* The slots, FLYING_SLOTS of them; NULL without a file. */
struct flying_slot *flying_slots(const struct flying *f);
/* Crashes in a row that left suspects; and none is left now. */
uint32_t flying_crashes(const struct flying *f);
void flying_calm(struct flying *f);

int flying_put(struct flying *f, uint64_t grant, const char *event_id);
/* The slot's task is in flight (again). FLYING_NONE is taken by all. */
void flying_begin(struct flying *f, int slot, bool alone);
/* Something else begins beside it. */
void flying_company(struct flying *f, int slot);
void flying_end(struct flying *f, int slot);

enum { FLYING_SLOTS = 16 * 1024 };

#endif
