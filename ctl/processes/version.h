/* version: which versions run, and what to do when they differ. */
#ifndef CTL_VERSION_H
#define CTL_VERSION_H

#include "ctl.h"

/* Some process of `rows` ({"process", "version"}; without a version it is not asked)
 * has another version than this command. */
bool version_is_mixed(const json_t *rows);
/* Prints which ones, and what to do; nothing when all are the same. */
void version_print_mixed(struct ctl *c, const json_t *rows);

#endif
