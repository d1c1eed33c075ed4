/* daemon_options: a daemon's command line: one table, which is read, explained by
 * --help and by its man page. */
#ifndef PROTO_DAEMON_OPTIONS_H
#define PROTO_DAEMON_OPTIONS_H

#include "daemon.h"

struct daemon_options {
    const char *config, *name;
    bool check;
};

/* Exits on its own for --help, --man, --metrics, --version and every error. */
struct daemon_options daemon_options_read(const struct daemon_plan *p, int argc,
                                          char **argv);

#endif
