/* sign_in: links with which one can sign in to the console's pages once. Used from the loop's thread; a
 * crash or a restart ends the links. */
#ifndef CONSOLE_SIGN_IN_H
#define CONSOLE_SIGN_IN_H

#include "api.h"
#include "command_spec.h"

/* The URL of a new link, valid for LINK_LIFE_MS (sessions.h) and once. Its secret is in the fragment,
 * which browsers do not send. `who` is the name that histories show. The caller's. */
char *sign_in_link(struct api *a, enum role role, const char *who);

#endif
