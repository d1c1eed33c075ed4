/* state_rules: judges a transition of an object's state by the rules of its source (`states`). */
#include "state_rules.h"
#include <string.h>

static bool leads_from(const char *transition, const char *from)
{
    size_t n = strlen(from);

    return strncmp(transition, from, n) == 0 && transition[n] == '>';
}

bool transition_is_valid(const struct state_rules *r, const char *from,
                         const char *to)
{
    if (!from)
        return string_list_has(&r->initial, to);
    for (size_t i = 0; i < r->transitions.count; i++) {
        const char *transition = r->transitions.items[i];

        if (leads_from(transition, from) &&
            strcmp(transition + strlen(from) + 1, to) == 0)
            return true;
    }
    return false;
}

static void put_state(struct buf *out, const char *state)
{
    buf_printf(out, "%s%s", out->len ? ", " : "", state);
}

void transitions_valid_from(const struct state_rules *r, const char *from,
                            struct buf *out)
{
    for (size_t i = 0; !from && i < r->initial.count; i++)
        put_state(out, r->initial.items[i]);
    for (size_t i = 0; from && i < r->transitions.count; i++)
        if (leads_from(r->transitions.items[i], from))
            put_state(out, r->transitions.items[i] + strlen(from) + 1);
    if (!out->len)
        buf_puts(out, "no other state");
}

bool state_is_last(const struct state_rules *r, const char *state)
{
    for (size_t i = 0; i < r->transitions.count; i++)
        if (leads_from(r->transitions.items[i], state))
            return false;
    return true;
}
