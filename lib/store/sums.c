/* sums: the list of tables with checksums. */
#include "sums.h"
#include "rc.h"

const struct db_summed sums_all[] = {
    {"archive", SUM_ARCHIVE, "event_id"},
    {"heads", SUM_HEADS, "'shared headers ' || rowid"},
    {"events", SUM_EVENTS, "id"},
    {"bodies", SUM_BODIES, "(SELECT id FROM events WHERE n = event)"},
    {"tasks", SUM_TASKS, "event_id"},
    {"dead_letters", SUM_DEAD_LETTERS, "event_id"},
    {"contents", SUM_CONTENTS,
     "(SELECT event_id FROM dead_letters WHERE n = dead_letter)"},
};
const size_t sums_count = COUNT_OF(sums_all);
