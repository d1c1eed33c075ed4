#include "moves.h"
#include <string.h>

static bool leads_from(const char *move, const char *from)
{
    size_t n = strlen(from);

    return strncmp(move, from, n) == 0 && move[n] == '>';
}

bool move_is_valid(const struct state_rules *r, const char *from,
                   const char *to)
{
    if (!from)
        return text_list_has(&r->initial, to);
    for (size_t i = 0; i < r->moves.count; i++) {
        const char *move = r->moves.items[i];

        if (leads_from(move, from) && strcmp(move + strlen(from) + 1, to) == 0)
            return true;
    }
    return false;
}

bool state_is_last(const struct state_rules *r, const char *state)
{
    for (size_t i = 0; i < r->moves.count; i++)
        if (leads_from(r->moves.items[i], state))
            return false;
    return true;
}
