/* proxy: makes the processes on other hosts reachable in run_dir, as if they ran here.
 *
 * For each process NAME that `cluster.peers` places on another host it binds run_dir/NAME.control and
 * run_dir/NAME.metrics, and connects to the control port there (tcp with CURVE, with the console's key). What may
 * use run_dir asks them there: `grapnel`, the console itself, an erasure of the sequencer. Of a name with several instances it
 * asks the active one, and binds nothing while that runs on this host (proxied.h).
 *
 * It has a thread, so that requests do not wait for the console's disk. While a process cannot be
 * reached, requests get the error `unreachable` at once, and `lost` if the connection ends before the reply:
 * then it is unknown whether the process handled them. kill -9 leaves the sockets' files, to which nobody can connect,
 * and NAME.host, from which `grapnel` tells that such a process is elsewhere. */
#ifndef CONSOLE_PROXY_H
#define CONSOLE_PROXY_H

#include "cluster.h"

struct proxy;

/* `cluster` may be NULL, and is closed after the proxy. */
struct proxy *proxy_open(const char *run_dir, struct cluster *cluster);
/* The cluster has other peers. */
void proxy_reload(struct proxy *p);
void proxy_close(struct proxy *p);

#endif
