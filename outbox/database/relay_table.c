/* relay_table: what the settings say about the table of a relay, for all drivers. */
#include "relay_table.h"
#include "alloc.h"
#include "reason.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct usual_column usual_columns[COLUMN_COUNT] = {
#define C(MEMBER, key, usual) [COLUMN_##MEMBER] = {key, usual},
    RELAY_COLUMNS(C)
#undef C
};

static char *copy(const char *text)
{
    return text ? gr_strdup(text) : NULL;
}

void relay_table_init(struct relay_table *t, const struct relay *r,
                      const char *process, int64_t max_payload_bytes)
{
    *t = (struct relay_table){
        .relay = gr_strdup(r->name),
        .process = gr_strdup(process),
        .database = gr_strdup(r->database),
        .password_file = copy(r->password_file),
        .name = gr_strdup(r->table),
        .where = copy(r->where),
        .statuses = {[RELAY_STATUS_NEW] = gr_strdup(r->statuses.fresh),
                     [DRIVER_RETRYING] = gr_strdup(r->statuses.retrying),
                     [DRIVER_DELIVERED] = gr_strdup(r->statuses.delivered),
                     [DRIVER_FAILED] = gr_strdup(r->statuses.failed)},
        .max_payload_bytes = max_payload_bytes,
    };
#define C(MEMBER, key, usual) \
    t->columns[COLUMN_##MEMBER] = copy(r->columns.MEMBER);
    RELAY_COLUMNS(C)
#undef C
}

void relay_table_fini(struct relay_table *t)
{
    for (int c = 0; c < COLUMN_COUNT; c++)
        free(t->columns[c]);
    for (int s = 0; s < RELAY_STATUS_COUNT; s++)
        free(t->statuses[s]);
    free(t->relay);
    free(t->process);
    free(t->database);
    free(t->password_file);
    free(t->name);
    free(t->where);
}

gr_rc relay_table_find(const struct relay_table *t, char *const *names,
                       size_t count, bool any_case, int at[COLUMN_COUNT],
                       char why[DRIVER_WHY_BYTES])
{
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const char *name = t->columns[c] ? t->columns[c]
                                         : usual_columns[c].usual;

        at[c] = -1;
        for (size_t i = 0; i < count && at[c] < 0; i++)
            if ((any_case ? strcasecmp : strcmp)(names[i], name) == 0)
                at[c] = (int)i;
        if (at[c] < 0 && (t->columns[c] || c <= COLUMN_status)) {
            snprintf(why, DRIVER_WHY_BYTES,
                     "table %s has no column %s: set columns.%s of relay %s",
                     t->name, name, usual_columns[c].key, t->relay);
            return GR_REFUSE;
        }
    }
    return GR_OK;
}

int relay_table_chars(enum column column)
{
    return column == COLUMN_url ? NAMED_URL_MAX_BYTES + 1
                                : PUBLISHED_TEXT_MAX_BYTES + 1;
}

gr_rc relay_table_refuse(char why[DRIVER_WHY_BYTES], const char *what,
                         const char *message)
{
    return reason_put(why, DRIVER_WHY_BYTES, what, message);
}

gr_rc relay_table_password(const struct relay_table *t,
                           char password[TABLE_PASSWORD_BYTES + 1],
                           char why[DRIVER_WHY_BYTES])
{
    int fd = open(t->password_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, password, TABLE_PASSWORD_BYTES);

    if (n < 0) {
        snprintf(why, DRIVER_WHY_BYTES, "password_file %s: %s",
                 t->password_file, strerror(errno));
        if (fd >= 0)
            close(fd);
        return GR_REFUSE;
    }
    close(fd);
    password[n] = 0;
    password[strcspn(password, "\r\n")] = 0;
    return GR_OK;
}
