/* relay_table: what the settings say about the table of a relay, for all drivers (driver.h).
 *
 * Only drivers call it. A table copies what it needs of the settings, and belongs to one driver. */
#ifndef OUTBOX_RELAY_TABLE_H
#define OUTBOX_RELAY_TABLE_H

#include "driver.h"
#include "named_url.h"
#include "published.h"
#include "settings.h"

enum column {
#define C(MEMBER, key, usual) COLUMN_##MEMBER,
    RELAY_COLUMNS(C)
#undef C
        COLUMN_COUNT
};

enum {
    TABLE_PASSWORD_BYTES = 1024,
    TABLE_SQL_BYTES = 64 * 1024, /* of one statement */
    RELAY_STATUS_NEW = 0,        /* beside those of enum driver_status */
    RELAY_STATUS_COUNT = 4,
};

/* The key in `columns` of the settings, and the name that is used without it. */
struct usual_column {
    const char *key, *usual;
};
extern const struct usual_column usual_columns[COLUMN_COUNT];

struct relay_table {
    char *relay, *process, *database, *password_file;
    char *name, *where;
    char *columns[COLUMN_COUNT]; /* as configured, or NULL */
    char *statuses[RELAY_STATUS_COUNT];
    int64_t max_payload_bytes;
};

void relay_table_init(struct relay_table *t, const struct relay *r,
                      const char *process, int64_t max_payload_bytes);
void relay_table_fini(struct relay_table *t);

/* Finds the columns that the relay uses among the `count` names of the columns that the table has: the
 * index of each in `at`, or -1. A usual name that the table does not have is not used; a configured
 * one, and those that are always needed, must be there: else GR_REFUSE. `any_case`: the
 * database does not distinguish upper and lower case in names. */
gr_rc relay_table_find(const struct relay_table *t, char *const *names,
                       size_t count, bool any_case, int at[COLUMN_COUNT],
                       char why[DRIVER_WHY_BYTES]);

/* How many characters of a text column are read: one more than an event may have, so that a longer one
 * is refused, and its row does not take the memory. */
int relay_table_chars(enum column column);

/* Writes "what: message" in one line to `why`. Returns GR_REFUSE. */
gr_rc relay_table_refuse(char why[DRIVER_WHY_BYTES], const char *what,
                         const char *message);

/* The first line of the password file. */
gr_rc relay_table_password(const struct relay_table *t,
                           char password[TABLE_PASSWORD_BYTES + 1],
                           char why[DRIVER_WHY_BYTES]);

#endif
