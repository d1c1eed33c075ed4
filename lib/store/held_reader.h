/* held_reader: a read transaction of its own connection, which keeps every checkpoint from copying what was committed after it
 * began. A replicated file uses it, so that no turn is copied into the file before the engine's log has it
 * (docs/decisions/0126). An error ends the process (74). One thread at a time. */
#ifndef STORE_HELD_READER_H
#define STORE_HELD_READER_H

struct held_reader;

/* Holds nothing yet. */
struct held_reader *held_reader_open(const char *path);
void held_reader_close(struct held_reader *h); /* NULL is allowed */
/* From now on a checkpoint copies what is committed now, and nothing that follows. */
void held_reader_renew(struct held_reader *h);
/* It holds nothing any more. Do this before the write-ahead log is begun anew, which waits for no reader. */
void held_reader_end(struct held_reader *h);

#endif
