/* peers: other ingress processes of the same pipeline. */
#ifndef INGRESS_PEERS_H
#define INGRESS_PEERS_H

#include "rc.h"

/* One is up: somebody responds at an inbox `ingress…` in our run_dir that is not
 * ours. A listen_peers; `arg` is our struct daemon. */
bool peers_running(void *arg);

#endif
