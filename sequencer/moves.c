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

static void put_state(struct buf *out, const char *state)
{
    buf_printf(out, "%s%s", out->len ? ", " : "", state);
}

void moves_valid_from(const struct state_rules *r, const char *from,
                      struct buf *out)
{
    for (size_t i = 0; !from && i < r->initial.count; i++)
        put_state(out, r->initial.items[i]);
    for (size_t i = 0; from && i < r->moves.count; i++)
        if (leads_from(r->moves.items[i], from))
            put_state(out, r->moves.items[i] + strlen(from) + 1);
    if (!out->len)
        buf_puts(out, "no other state");
}

bool state_is_last(const struct state_rules *r, const char *state)
{
    for (size_t i = 0; i < r->moves.count; i++)
        if (leads_from(r->moves.items[i], state))
            return false;
    return true;
}
