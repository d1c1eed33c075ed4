/* peers: finds other ingress processes of the same pipeline, with which a port may be shared. */
#ifndef INGRESS_PEERS_H
#define INGRESS_PEERS_H

#include "rc.h"

/* Whether a process responds at an inbox `ingress…` in run_dir that is not our own. A
 * listen_peers (listen.h); `arg` is our struct daemon. */
bool peers_running(void *arg);

#endif
