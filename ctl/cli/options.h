/* options: the command line as data. Pure: reads argv by the table of commands and prints
 * nothing. */
#ifndef CTL_OPTIONS_H
#define CTL_OPTIONS_H

#include "command_spec.h"
#include "rc.h"

struct ctl;

enum { OPTIONS_MAX = 12 };

struct option_spec {
    const char *name;  /* "--since"; NULL ends the list */
    const char *value; /* "D", or NULL for a flag */
    const char *help;  /* NULL: an argument of the command's request */
};

/* One command; its name has one or two words ("dlq show"). */
struct command {
    const char *name;
    const char *args; /* "ID…", "" for none */
    int min, max;     /* words after the name; max -1: any number */
    const char *summary;
    const char *help;     /* paragraphs below the summary; may be "" */
    const char *examples; /* lines */
    const struct command_spec *request; /* NULL: none is declared */
    struct option_spec options[OPTIONS_MAX];
    int (*run)(struct ctl *c); /* the exit code */
};

/* The argument of the command's request that an option sets: --since sets since_ms. NULL: the
 * option is of this program only. */
const struct value *option_arg(const struct command *c,
                               const struct option_spec *o);
/* What stands for its value in a help text, or NULL for a flag. */
const char *option_value(const struct command *c, const struct option_spec *o);
/* Its help, with default and "(required)"; the caller's. */
char *option_help(const struct command *c, const struct option_spec *o);

/* An error of a process that begins with "args.role" begins then with --role, if the command has
 * this option, else with role. */
void option_error(const struct command *c, char why[200]);

/* What the command line says. Borrows from argv. */
struct parsed {
    const struct command *command; /* NULL: none was named */
    /* The first word of commands, without a second one; help was asked for. NULL: not so. */
    const char *family;
    const char *config;  /* NULL: not given */
    const char *run_dir; /* likewise */
    bool json, local, help, version;
    const char *values[OPTIONS_MAX]; /* as command->options; "" for a flag */
    const char **args;               /* owned; ends with NULL */
    int arg_count;
};

/* `commands` ends with a NULL name. GR_REFUSE: `why` is one sentence, with a near miss if there
 * is one. The caller calls parsed_fini() in either case. */
GR_MUST_CHECK gr_rc options_parse(const struct command *commands, int argc,
                                  char **argv, struct parsed *out,
                                  char why[400]);
void parsed_fini(struct parsed *p);
/* The value of an option that the command declares; "" for a flag; NULL: it was not given. */
const char *parsed_value(const struct parsed *p, const char *option);

#endif
