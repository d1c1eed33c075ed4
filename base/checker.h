/* checker: looks through a large SQLite file for damage while work goes on: a
 * thread and a connection of its own, table by table, each once. A damaged file
 * ends the process (db_check.h).
 *
 * While it is at a table it reads of one moment, and the WAL can't be begun anew.
 * Who needs that breaks the look at this table off. */
#ifndef BASE_CHECKER_H
#define BASE_CHECKER_H

struct checker;

struct checker *checker_open(const char *path);
/* Waits for its end, which comes soon. NULL will do. */
void checker_close(struct checker *c);
/* Leave the table that it is at. NULL will do. */
void checker_break(struct checker *c);

#endif
