#include "flying.h"
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

struct flying_file {
    uint64_t magic;
    uint32_t crashes;
    uint32_t zero;
    uint64_t begun; /* the last */
    struct flying_slot slots[FLYING_SLOTS];
};

/* Mapped memory is there after a kill in the order of our stores. */
static void set_state(struct flying_slot *s, enum flying_state state)
{
    atomic_signal_fence(memory_order_release);
    *(volatile uint32_t *)&s->state = state;
    atomic_signal_fence(memory_order_release);
}

/* All of it is there before it is mapped: a hole that finds no room on the
 * disk later would be a SIGBUS. */
static struct flying_file *map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc;
    void *p;

    if (fd < 0)
        return NULL;
    rc = posix_fallocate(fd, 0, sizeof(struct flying_file));
    if (rc != 0) {
        errno = rc;
        close(fd);
        return NULL;
    }
    p = mmap(NULL, sizeof(struct flying_file), PROT_READ | PROT_WRITE,
             MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static bool makes_sense(const struct flying_slot *s)
{
    return s->state <= FLYING_SUSPECT && s->event_id[0] &&
           memchr(s->event_id, 0, sizeof s->event_id);
}

static bool to_suspect(struct flying_slot *s)
{
    if (s->state == FLYING_FREE || !makes_sense(s)) {
        *s = (struct flying_slot){0};
        return false;
    }
    s->crashes += s->state == FLYING_ALONE;
    set_state(s, FLYING_SUSPECT);
    return true;
}

void flying_open(struct flying *f, const char *path)
{
    int suspects = 0;

    *f = (struct flying){.file = map(path)};
    if (!f->file) {
        log_warn(NULL,
                 "what is in flight can't be noted: after a crash nothing "
                 "will be known of it",
                 LS("file", path), LS("error", strerror(errno)));
        return;
    }
    if (f->file->magic != MAGIC) {
        memset(f->file, 0, sizeof *f->file);
        f->file->magic = MAGIC;
    }
    f->free = gr_alloc(FLYING_SLOTS * sizeof *f->free);
    for (int i = FLYING_SLOTS - 1; i >= 0; i--) {
        if (to_suspect(&f->file->slots[i]))
            suspects++;
        else
            f->free[f->free_count++] = i;
    }
    f->file->crashes = suspects ? f->file->crashes + 1 : 0;
}

void flying_close(struct flying *f)
{
    if (f->file)
        munmap(f->file, sizeof *f->file);
    free(f->free);
    *f = (struct flying){0};
}

struct flying_slot *flying_slots(const struct flying *f)
{
    return f->file ? f->file->slots : NULL;
}

uint32_t flying_crashes(const struct flying *f)
{
    return f->file ? f->file->crashes : 0;
}

void flying_calm(struct flying *f)
{
    if (f->file)
        f->file->crashes = 0;
}

int flying_put(struct flying *f, uint64_t grant, const char *event_id)
{
    struct flying_slot *s;
    int slot;

    if (f->free_count == 0)
        return FLYING_NONE;
    slot = f->free[--f->free_count];
    s = &f->file->slots[slot];
    s->crashes = 0;
    s->grant = grant;
    memcpy(s->event_id, event_id, strnlen(event_id, EVENT_ID_BYTES) + 1);
    s->event_id[EVENT_ID_BYTES] = 0;
    return slot;
}

void flying_begin(struct flying *f, int slot, bool alone)
{
    if (slot == FLYING_NONE)
        return;
    f->file->slots[slot].begun = ++f->file->begun;
    set_state(&f->file->slots[slot], alone ? FLYING_ALONE : FLYING_COMPANY);
}

void flying_company(struct flying *f, int slot)
{
    if (slot != FLYING_NONE)
        set_state(&f->file->slots[slot], FLYING_COMPANY);
}

void flying_end(struct flying *f, int slot)
{
    if (slot == FLYING_NONE)
        return;
    set_state(&f->file->slots[slot], FLYING_FREE);
    f->free[f->free_count++] = slot;
}
