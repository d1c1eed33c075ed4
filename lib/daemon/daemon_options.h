/* daemon_options: a daemon's command line, as one table for parsing, --help and the man
 * page. */
#ifndef DAEMON_DAEMON_OPTIONS_H
#define DAEMON_DAEMON_OPTIONS_H

#include "daemon.h"

struct daemon_options {
    const char *config, *name;
    bool check;
};

/* Exits by itself for --help, --man, --metrics, --version and every error. */
struct daemon_options daemon_options_read(const struct daemon_plan *p, int argc,
                                          char **argv);

#endif
