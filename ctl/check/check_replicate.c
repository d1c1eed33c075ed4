/* check_replicate: asks the replication database whether processes could work with it. */
#include "check_replicate.h"
#include "alloc.h"
#include "clock.h"
#include "engine_check.h"
#include "permission.h"

enum { HOLD_MAX_MS = 6 * SECOND_MS }; /* half of it limits each step */

struct lines {
    const struct settings *settings;
    struct string_list *errors, *warnings;
};

static void found(void *self, enum engine_finding_kind kind, const char *what,
                  const char *fix)
{
    struct lines *l = self;
    const char *path = l->settings->path;

    if (kind == ENGINE_WEAK && !l->settings->replicate.accept_weak)
        string_list_give(
            l->errors,
            gr_printf("%s: replicate.database: %s. To correct it: %s. Or set "
                      "accept_weak_durability, and lose it then",
                      path, what, fix));
    else if (kind == ENGINE_WEAK)
        string_list_give(
            l->warnings,
            gr_printf("%s: replicate.database: warning: %s, and "
                      "accept_weak_durability permits it. To correct it: %s",
                      path, what, fix));
    else if (kind == ENGINE_UNPREPARED)
        string_list_give(l->errors, gr_printf("%s: replicate.database: %s: %s",
                                              path, what, fix));
    else
        string_list_give(l->warnings,
                         gr_printf("%s: replicate.database: warning: %s: %s",
                                   path, what, fix));
}

void check_replicate(const struct settings *s, struct string_list *errors,
                     struct string_list *warnings)
{
    struct lines lines = {s, errors, warnings};
    int64_t hold_ms = hold_of_ms(s->replicate.takeover_after_ms);
    const struct engine_settings e = {
        .database = s->replicate.database,
        .process = "",
        .host = "",
        .hold_ms = hold_ms < HOLD_MAX_MS ? hold_ms : HOLD_MAX_MS};
    char why[ENGINE_WHY_BYTES] = "";

    if (s->replicate.database && engine_check(&e, found, &lines, why) != GR_OK)
        string_list_give(
            warnings, gr_printf("%s: replicate.database: warning: it cannot be "
                                "checked: %s. Processes wait until they can "
                                "use it; `grapnel replicate init` prints "
                                "the SQL for a new one",
                                s->path, why));
}
