/* names: explains a search that found nothing because a name in it does not exist. A name that
 * is not in the configuration may still be that of an event, a delivery or a dead letter, for
 * example of a removed endpoint. So only a search without results asks whether its names
 * exist. For commands, after the search. */
#ifndef CTL_NAMES_H
#define CTL_NAMES_H

#include "ctl.h"

/* Returns 0 if every value of these options is a known name, a pattern, or cannot be checked;
 * else prints the unknown one with the nearest known name, and returns 1. */
int unknown_filter(struct ctl *c, const char *const *options);
/* Whether the option's value is one of the words that shells complete it with, or the option
 * was not given. false: the error was printed; the command exits 64. */
bool is_choice(struct ctl *c, const char *option);

#endif
