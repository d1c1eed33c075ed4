/* portal: links with which a customer's own users open the portal, the pages of one workspace. Used from the
 * loop's thread; a crash or a restart ends the links and the tokens (portal_grants.h). docs/CONSOLE.md is for
 * those who embed it. */
#ifndef CONSOLE_PORTAL_H
#define CONSOLE_PORTAL_H

#include "api.h"

/* Control command portal_link. self: struct api. */
json_t *portal_link(struct api *a, const json_t *args, char why[200]);

#endif
