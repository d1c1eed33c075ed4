/* checkpoint_guard: compares the salts of a write-ahead log when a checkpoint begins and before it copies. */
#include "checkpoint_guard.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

/* https://sqlite.org/walformat.html#wal_locks */
enum {
    CHECKPOINT_LOCK = 1,
    READ_LOCK_0 = 3, /* exclusive: only a checkpoint that is about to copy */
    REGION_BYTES = 32768,
    SALTS_AT = 32, /* in the first region of the index */
};

static const sqlite3_io_methods *real;
static sqlite3_io_methods methods;
static int at_in_file;

static struct checkpoint_guard *guard_of(sqlite3_file *f)
{
    return (struct checkpoint_guard *)(void *)((char *)f + at_in_file);
}

/* Zeros if the index does not exist yet: then the checkpoint is refused. */
static void read_salts(sqlite3_file *f, uint32_t salts[2])
{
    volatile void *index = NULL;
    const volatile uint32_t *here;

    salts[0] = salts[1] = 0;
    if (real->xShmMap(f, 0, REGION_BYTES, 0, &index) != SQLITE_OK || !index)
        return;
    here = (const volatile uint32_t *)((const volatile char *)index + SALTS_AT);
    salts[0] = here[0];
    salts[1] = here[1];
}

static int on_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    struct checkpoint_guard *g = guard_of(f);
    uint32_t now[2];
    int rc = real->xShmLock(f, at, n, flags);

    if (rc != SQLITE_OK || n != 1 ||
        flags != (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE))
        return rc;
    if (at == CHECKPOINT_LOCK) {
        /* SQLite reads the header after this. If the WAL is restarted in between, the header is new and
         * the checkpoint would be right; it is refused all the same. */
        read_salts(f, g->salts);
    } else if (at == READ_LOCK_0) {
        /* A commit that restarts the WAL holds this lock as a reader, so from here on there is none. */
        read_salts(f, now);
        if (memcmp(now, g->salts, sizeof now) != 0) {
            real->xShmLock(f, at, n, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
            return SQLITE_BUSY;
        }
    }
    return SQLITE_OK;
}

void checkpoint_guard_install(sqlite3_file *f, int guard_at)
{
    assert(!real || (real == f->pMethods && at_in_file == guard_at));
    if (!real) {
        real = f->pMethods;
        at_in_file = guard_at;
        methods = *real;
        methods.xShmLock = on_shm_lock;
    }
    *guard_of(f) = (struct checkpoint_guard){0};
    f->pMethods = &methods;
}
