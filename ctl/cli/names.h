/* names: filters that name what there is not. A name may be unknown to the
 * configuration and still be that of an event, delivery or dead letter, of an
 * endpoint that was removed for example. So only a search that finds nothing
 * asks whether its names are known, and then it is an error with the nearest one. */
#ifndef CTL_NAMES_H
#define CTL_NAMES_H

#include "ctl.h"

/* After a search with these options (as of put_filters()) that found nothing. 0: every
 * name in them is known, is a pattern, or can't be judged. Else prints which one is not
 * and returns 1. */
int unknown_filter(struct ctl *c, const char *const *options);
/* The option's value is one of the words that shells complete it with, or it was not
 * given. false: prints them, with the nearest; exit 64. */
bool is_choice(struct ctl *c, const char *option);

#endif
