/* main: reads the command line of `grapnel` and runs the command. */
#include "complete.h"
#include "config.h"
#include "when.h"
#include <czmq.h>

/* --version, --help, and a command line without a command. -1: run the command. */
static int run_at_once(const struct parsed *p)
{
    if (p->version) {
        printf("grapnel %s\n", GRAPNEL_VERSION);
        return 0;
    }
    if (p->help && p->command) {
        help_one(p->command);
        return 0;
    }
    if (p->help && p->family) {
        help_family(p->family);
        return 0;
    }
    if (p->help) {
        help_all();
        return 0;
    }
    if (!p->command) {
        complain(EXIT_USAGE,
                 "the command is missing; `grapnel --help` lists the commands");
        return EXIT_USAGE;
    }
    return -1;
}

/* grapnel: the command line.
 *
 * Asks running processes over their control sockets, reads the configuration, and posts to
 * ingress as a provider does. Only `restore` and `verify` open databases: copies, and those of
 * stopped processes.
 *
 * Exits     0 done, 1 not found or refused, 64 usage, 69 a process cannot be reached (the error
 *           names it), 74 the output could not be written, 78 configuration
 * Output    a table; with --json one document on standard output; colours only on a terminal,
 *           never with NO_COLOR */
int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    struct ctl c = {.config = settings_path(NULL)};
    char why[400];
    int code = 0;

    zsys_handler_set(NULL); /* Ctrl-C ends this program */
    if (argc > 1 && strcmp(argv[1], "--man") == 0) { /* for the build */
        help_manual(argc > 2 ? argv[2] : NULL);
    } else if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        /* for shells: packaging/completion */
        complete_print(&c, (const char *const *)argv + 2, argc - 2);
    } else if (options_parse(ctl_commands, argc, argv, &c.parsed, why) !=
               GR_OK) {
        code = complain(EXIT_USAGE, "%s", why);
        fprintf(stderr, "See `grapnel %s%s--help`.\n",
                c.parsed.command ? c.parsed.command->name : "",
                c.parsed.command ? " " : "");
    } else if ((code = run_at_once(&c.parsed)) < 0) {
        c.config = settings_path(c.parsed.config);
        c.json = c.parsed.json;
        when_use_local(c.parsed.local);
        c.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour) &&
                   term && *term;
        code = c.parsed.command->run(&c);
    }
    settings_free(c.settings);
    json_decref(c.names);
    json_decref(c.found);
    free(c.run_dir);
    parsed_fini(&c.parsed);
    if (fflush(stdout) != 0 || ferror(stdout))
        return complain(EXIT_STORAGE, "the output could not be written");
    return code;
}
