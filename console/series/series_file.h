/* series_file: a file with the past values of up to 1000 series: every 10 seconds for a day, and
 * every 5 minutes for 30 days. series_store.h makes them.
 *
 * The file has a fixed largest size (71 MB) and no database: a table of names, and two rings of
 * chunks with 6 samples of every series. A chunk's place follows from its time, so what is older
 * than a ring is overwritten. Each chunk and each name has a checksum; one that does not match is
 * missing. A file that is damaged at its begin or of another version is begun anew. Nothing is synced:
 * a crash of the process loses at most what series_file_flush() has not written, a power cut also
 * the last minutes. Errors are logged once and never end the process. Used by the console, from the
 * loop's thread. */
#ifndef CONSOLE_SERIES_FILE_H
#define CONSOLE_SERIES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERIES_SLOTS = 1000,
    SERIES_NAME_BYTES = 111,
    SERIES_CHUNK_SAMPLES = 6,
};

enum series_ring { SERIES_FINE, SERIES_COARSE, SERIES_RINGS };

struct series_file;

/* Borrows nothing. Never fails: without a file, only the present chunks are kept. */
struct series_file *series_file_open(const char *path);
void series_file_close(struct series_file *f);

int64_t series_step_ms(enum series_ring ring);
int64_t series_chunk_ms(enum series_ring ring); /* 6 steps */
int64_t series_span_ms(enum series_ring ring);  /* of the whole ring */

/* The slot of a series, which is made if it is new: values from `time_ms` on belong to it. -1: there
 * are too many, and each was given a value within the last day. */
int series_file_slot(struct series_file *f, const char *name, int64_t time_ms);
/* The name of a slot, or NULL; *since_ms: earlier values belong to another series. */
const char *series_file_name(const struct series_file *f, int slot,
                             int64_t *since_ms);

/* Sets the value of the sample that begins at time_ms, a multiple of the ring's step. When another
 * chunk begins, the one before is written. */
void series_file_set(struct series_file *f, enum series_ring ring, int slot,
                     int64_t time_ms, float value);
void series_file_flush(struct series_file *f);

/* The samples of the chunk that contains `time_ms`, those of slot n from n * 6 on, valid until the
 * next call; NAN: there is no value. NULL: there is no such chunk. *slots: how many it has. */
const float *series_file_chunk(struct series_file *f, enum series_ring ring,
                               int64_t time_ms, int *slots);

#endif
