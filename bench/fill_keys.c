/* fill-keys DB COUNT: put COUNT idempotency keys into a sequencer's database,
 * by the sequencer's own code, for bench/keys. The sequencer must not run. */
#include "clock.h"
#include "keys.h"
#include "retention.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>

enum { PER_TURN = 100000 };

int main(int argc, char **argv)
{
    int64_t count, now = now_ms();
    struct keys *keys;
    static const struct retention right_clock;
    struct db *db;

    if (argc != 3) {
        fprintf(stderr, "usage: fill-keys DB COUNT\n");
        return EXIT_USAGE;
    }
    count = strtoll(argv[2], NULL, 10);
    db = db_open(argv[1], &sequencer_schema);
    keys = keys_open(db);
    for (int64_t n = 0; n < count;) {
        db_begin(db);
        for (int64_t end = n + PER_TURN; n < end && n < count; n++)
            keys_add(keys, key_make(&n, sizeof n), n + 1, now, 7 * DAY_MS, now);
        keys_work(keys, &right_clock, now, 0);
        if (db_commit(db) != GR_OK)
            die(EXIT_STORAGE, "the disk is full");
        db_tidy(db);
    }
    printf("%lld keys, filters of %zu bytes\n", (long long)keys_count(keys),
           keys_filter_bytes(keys));
    keys_close(keys);
    db_close(db);
    return 0;
}
