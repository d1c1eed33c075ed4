#include "complete.h"
#include "config.h"
#include "when.h"
#include <czmq.h>

static bool use_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(no && *no) && term && *term;
}

/* What was asked for before any command runs; -1: run it. */
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

/* What only other programs ask for: a shell that completes (packaging/completion),
 * and the build, for the man page. */
static bool for_programs(struct ctl *c, int argc, char **argv, int *code)
{
    bool complete = strcmp(argv[1], "--complete") == 0;

    *code = 0;
    if (!complete && strcmp(argv[1], "--man") != 0)
        return false;
    if (!complete) {
        help_manual(argc > 2 ? argv[2] : NULL);
        return true;
    }
    c->config = settings_path(NULL);
    *code = complete_print(c, (const char *const *)argv + 2, argc - 2);
    settings_free(c->settings);
    json_decref(c->names);
    json_decref(c->found);
    free(c->run_dir);
    return true;
}

/* grapnel: the command line.
 *
 * Asks running processes over their control sockets, reads the configuration, and
 * posts to ingress as a provider would. Only `restore` opens databases: copies, and
 * those of processes that are stopped.
 *
 * Exits     0 done, 1 not found or refused, 64 usage, 69 a process can't be
 *           reached (it says which), 78 configuration
 * Output    a table; with --json one document on standard output;
 *           colours only on a terminal, never with NO_COLOR
 */
int main(int argc, char **argv)
{
    struct ctl c = {0};
    char why[400];
    int code;

    zsys_handler_set(NULL); /* Ctrl-C ends us, as always */
    if (argc > 1 && for_programs(&c, argc, argv, &code))
        return code;
    if (options_parse(ctl_commands, argc, argv, &c.parsed, why) != GR_OK) {
        complain(EXIT_USAGE, "%s", why);
        fprintf(stderr, "See `grapnel %s%s--help`.\n",
                c.parsed.command ? c.parsed.command->name : "",
                c.parsed.command ? " " : "");
        parsed_fini(&c.parsed);
        return EXIT_USAGE;
    }
    code = run_at_once(&c.parsed);
    if (code < 0) {
        c.config = settings_path(c.parsed.config);
        c.json = c.parsed.json;
        when_use_local(c.parsed.local);
        c.colour = use_colour();
        code = c.parsed.command->run(&c);
        settings_free(c.settings);
        json_decref(c.names);
        json_decref(c.found);
        free(c.run_dir);
    }
    parsed_fini(&c.parsed);
    if (fflush(stdout) != 0 || ferror(stdout))
        return complain(EXIT_STORAGE, "the output could not be written");
    return code;
}
