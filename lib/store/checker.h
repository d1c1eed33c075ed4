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
/* Waits until it has ended, which takes a moment. NULL is allowed. */
void checker_close(struct checker *c);
/* Makes it leave the table that it is checking. NULL is allowed. */
void checker_break(struct checker *c);

#endif
