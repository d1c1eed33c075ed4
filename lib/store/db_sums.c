/* db_sums: the SQL function content_sum(), and the check of a row against its checksum. */
#include "db_sums.h"
#include "checksum.h"
#include "log.h"
#include <stdatomic.h>

static atomic_int_fast64_t found_count;

static uint64_t add_value(uint64_t sum, sqlite3_value *v)
{
    int type = sqlite3_value_type(v);
    sqlite3_int64 number;
    const void *p;

    sum = checksum_add(sum, &type, sizeof type);
    switch (type) {
    case SQLITE_INTEGER:
        number = sqlite3_value_int64(v);
        return checksum_add(sum, &number, sizeof number);
    case SQLITE_TEXT:
        p = sqlite3_value_text(v);
        return checksum_add(sum, p, (size_t)sqlite3_value_bytes(v));
    case SQLITE_BLOB:
        p = sqlite3_value_blob(v);
        return checksum_add(sum, p ? p : "", (size_t)sqlite3_value_bytes(v));
    default:
        return sum;
    }
}

static void content_sum(sqlite3_context *context, int n, sqlite3_value **values)
{
    uint64_t sum = CHECKSUM_BEGIN;

    for (int i = 0; i < n; i++)
        sum = add_value(sum, values[i]);
    sqlite3_result_int64(context, (sqlite3_int64)sum);
}

void db_sums_register(sqlite3 *h)
{
    sqlite3_create_function_v2(h, "content_sum", -1,
                               SQLITE_UTF8 | SQLITE_DETERMINISTIC |
                                   SQLITE_DIRECTONLY,
                               NULL, content_sum, NULL, NULL, NULL);
}

void db_damage_found(const char *id, const char *path, const char *table)
{
    atomic_fetch_add(&found_count, 1);
    log_error(id,
              "the stored data of this event is damaged; it is not delivered. "
              "Check the disk; `grapnel resend` sends the event again if "
              "ingress still has the request",
              LS("file", path), LS("table", table));
}

void db_damage_found_in(const char *path, const char *table, const char *what)
{
    atomic_fetch_add(&found_count, 1);
    log_error(NULL,
              "the database is damaged; stop this process, check the disk, and "
              "restore a backup (`grapnel restore`)",
              LS("file", path), LS("table", table), LS("what", what));
}

int64_t db_damage_count(void)
{
    return atomic_load(&found_count);
}
