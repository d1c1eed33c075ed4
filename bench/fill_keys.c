/* fill-keys DB COUNT [signed]: put COUNT idempotency keys, or digests of what is signed
 * (dedupe.replays), into a sequencer's database, by the sequencer's own code, for
 * bench/keys. The sequencer must not run. Prints what opening and filling took. */
#include "clock.h"
#include "keys.h"
#include "retention.h"
#include "store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_TURN = 100000 };

int main(int argc, char **argv)
{
    int64_t count, now = now_ms(), began_us = mono_us(), open_us;
    bool is_signed;
    struct keys *keys;
    static const struct retention right_clock;
    struct db *db;

    is_signed = argc == 4 && strcmp(argv[3], "signed") == 0;
    if (argc != 3 && !is_signed) {
        fprintf(stderr, "usage: fill-keys DB COUNT [signed]\n");
        return EXIT_USAGE;
    }
    count = strtoll(argv[2], NULL, 10);
    db = db_open(argv[1], &sequencer_schema);
    keys = keys_open(db);
    open_us = mono_us() - began_us;
    for (int64_t n = 0; n < count;) {
        db_begin(db);
        for (int64_t end = n + PER_TURN; n < end && n < count; n++) {
            struct key key = key_make(&n, sizeof n);

            if (is_signed && !keys_find_signed(keys, key, 0))
                keys_add_signed(keys, key, n + 1, now, 30 * DAY_MS, now);
            else if (!is_signed)
                keys_add(keys, key, n + 1, now, 7 * DAY_MS, now);
        }
        keys_work(keys, &right_clock, now, 0);
        if (db_commit(db) != GR_OK)
            die(EXIT_STORAGE, "the disk is full");
        db_tidy(db);
    }
    printf("%lld keys, filters of %zu bytes; opened in %lld ms, filled in %lld "
           "ms\n",
           (long long)keys_count(keys), keys_filter_bytes(keys),
           (long long)(open_us / 1000),
           (long long)((mono_us() - began_us - open_us) / 1000));
    keys_close(keys);
    db_close(db);
    return 0;
}
