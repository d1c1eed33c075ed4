/* siblings: other ingress processes of the same pipeline. */
#ifndef INGRESS_SIBLINGS_H
#define INGRESS_SIBLINGS_H

#include "rc.h"

/* One is up: somebody answers at an inbox `ingress…` in our run_dir that is not
 * ours. A listen_siblings; `arg` is our struct daemon. */
bool siblings_are_there(void *arg);

#endif
