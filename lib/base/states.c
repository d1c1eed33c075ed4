/* states: checks transitions against a table. */
#include "states.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

static bool known(const struct states *s, int state)
{
    return state >= 0 && state < s->count && s->table[state].name;
}

bool states_allow(const struct states *s, int from, int to)
{
    return known(s, from) && known(s, to) &&
           (s->table[from].next & STATE_TO(to));
}

const char *states_name(const struct states *s, int state)
{
    return known(s, state) ? s->table[state].name : "(no state)";
}

int states_find(const struct states *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (s->table[i].name && strcmp(s->table[i].name, name) == 0)
            return i;
    return -1;
}

void states_transition(const struct states *s, int *state, int to,
                       const char *event, const char *who, int64_t *moved)
{
    const char *old = states_name(s, *state), *new = states_name(s, to);

    if (!states_allow(s, *state, to)) {
        log_error(event, "a transition that is not allowed; this is a bug",
                  LS(s->what, who), LS("from", old), LS("to", new));
        abort();
    }
    log_debug(event, "moved", LS(s->what, who), LS("from", old), LS("to", new));
    *state = to;
    if (moved)
        moved[to]++;
}
