/* checker: checks a large SQLite file for damage while the process works, with a thread and a
 * connection of its own, one table after the other. A damaged file ends the process
 * (db_check.h).
 *
 * While it reads a table it holds a read transaction, so the WAL cannot be restarted. A
 * caller that needs a restart interrupts the check of this table. */
#ifndef STORE_CHECKER_H
#define STORE_CHECKER_H

struct checker;

struct checker *checker_open(const char *path);
/* Waits for its end, which comes soon. NULL will do. */
void checker_close(struct checker *c);
/* Leave the table that it is at. NULL will do. */
void checker_break(struct checker *c);

#endif
