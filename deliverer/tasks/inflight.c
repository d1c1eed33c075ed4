/* inflight: maps the file of tasks in flight, and writes a slot for each attempt. */
#include "inflight.h"
#include "alloc.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* "Grapnel", and the version of this layout. */
#define MAGIC 0x316c656e70617247ULL

struct inflight_file {
    uint64_t magic;
    uint32_t crashes;
    uint32_t zero;
    uint64_t begun; /* how many attempts were begun, over all starts */
    struct inflight_slot slots[INFLIGHT_SLOTS];
};

/* After a kill, mapped memory has the stores in the order in which they were made. */
static void set_state(struct inflight_slot *s, enum inflight_state state)
{
    atomic_signal_fence(memory_order_release);
    *(volatile uint32_t *)&s->state = state;
    atomic_signal_fence(memory_order_release);
}

/* Allocates the whole file before it is mapped: a write to a part without disk blocks
 * would be a SIGBUS when the disk is full. */
static struct inflight_file *map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc;
    void *p;

    if (fd < 0)
        return NULL;
    rc = posix_fallocate(fd, 0, sizeof(struct inflight_file));
    if (rc != 0) {
        errno = rc;
        close(fd);
        return NULL;
    }
    p = mmap(NULL, sizeof(struct inflight_file), PROT_READ | PROT_WRITE,
             MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

/* Of each slot at a start. false: it is free now. */
static bool quarantine_slot(struct inflight_slot *s)
{
    bool valid = s->state <= INFLIGHT_QUARANTINED && s->event_id[0] &&
                 memchr(s->event_id, 0, sizeof s->event_id);

    if (s->state == INFLIGHT_FREE || !valid) {
        *s = (struct inflight_slot){0};
        return false;
    }
    s->crashes += s->state == INFLIGHT_ALONE;
    set_state(s, INFLIGHT_QUARANTINED);
    return true;
}

void inflight_open(struct inflight *f, const char *path)
{
    int quarantined = 0;

    *f = (struct inflight){.file = map(path)};
    if (!f->file) {
        log_warn(NULL,
                 "the attempts in progress cannot be recorded; after a crash "
                 "they are unknown",
                 LS("file", path), LS("error", strerror(errno)));
        return;
    }
    if (f->file->magic != MAGIC) {
        memset(f->file, 0, sizeof *f->file);
        f->file->magic = MAGIC;
    }
    f->free = gr_alloc(INFLIGHT_SLOTS * sizeof *f->free);
    for (int i = INFLIGHT_SLOTS - 1; i >= 0; i--) {
        if (quarantine_slot(&f->file->slots[i]))
            quarantined++;
        else
            f->free[f->free_count++] = i;
    }
    f->file->crashes = quarantined ? f->file->crashes + 1 : 0;
}

void inflight_close(struct inflight *f)
{
    if (f->file)
        munmap(f->file, sizeof *f->file);
    free(f->free);
    *f = (struct inflight){0};
}

struct inflight_slot *inflight_slots(const struct inflight *f)
{
    return f->file ? f->file->slots : NULL;
}

uint32_t inflight_crashes(const struct inflight *f)
{
    return f->file ? f->file->crashes : 0;
}

void inflight_reset_crashes(struct inflight *f)
{
    if (f->file)
        f->file->crashes = 0;
}

int inflight_add(struct inflight *f, uint64_t grant, const char *event_id)
{
    struct inflight_slot *s;
    int slot;

    if (f->free_count == 0)
        return INFLIGHT_NONE;
    slot = f->free[--f->free_count];
    s = &f->file->slots[slot];
    s->crashes = 0;
    s->grant = grant;
    memcpy(s->event_id, event_id, strnlen(event_id, EVENT_ID_BYTES) + 1);
    s->event_id[EVENT_ID_BYTES] = 0;
    return slot;
}

void inflight_begin(struct inflight *f, int slot, bool alone)
{
    if (slot == INFLIGHT_NONE)
        return;
    f->file->slots[slot].begun = ++f->file->begun;
    set_state(&f->file->slots[slot],
              alone ? INFLIGHT_ALONE : INFLIGHT_BESIDE_OTHERS);
}

void inflight_not_alone(struct inflight *f, int slot)
{
    if (slot != INFLIGHT_NONE)
        set_state(&f->file->slots[slot], INFLIGHT_BESIDE_OTHERS);
}

void inflight_end(struct inflight *f, int slot)
{
    if (slot == INFLIGHT_NONE)
        return;
    set_state(&f->file->slots[slot], INFLIGHT_FREE);
    f->free[f->free_count++] = slot;
}
