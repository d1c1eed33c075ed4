/* daemon_options: parses the command line of a daemon, and prints --help and the man page. */
#include "daemon_options.h"
#include "alloc.h"
#include "conf.h"
#include "config.h"
#include "daemon_metrics.h"
#include "manual.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024 * 1024 };

static const struct {
    const char *name;
    char letter; /* 0: it has none */
    const char *value;
    const char *help;
} table[] = {
    {"--config", 'c', "FILE",
     "default $GRAPNEL_CONFIG, then /etc/grapnel/grapnel.yaml"},
    {"--name", 'n', "NAME",
     "the name of this process when several of its kind run: KIND or KIND-…; "
     "its database is NAME.db"},
    {"--check", 0, NULL, "check the configuration, then exit"},
    {"--metrics", 0, NULL, "print the list of its metrics, then exit"},
    {"--man", 0, NULL, "print its man page, then exit"},
    {"--version", 0, NULL, "print the version, then exit"},
    {"--help", 'h', NULL, "print this help"},
};

static const struct {
    int code;
    const char *help;
} codes[] = {
    {0, "stopped by SIGTERM, or an option such as --check succeeded"},
    {EXIT_USAGE, "the command line is wrong"},
    {EXIT_UNAVAILABLE, "a port is in use, or another instance runs"},
    {EXIT_STORAGE, "an error of its database or the disk"},
    {EXIT_FENCED, "another host owns the replicated database: start it again, "
                  "and it is a standby"},
    {EXIT_CONFIG, "the configuration has errors; all are printed"},
};

static const char running[] =
    "The process runs in the foreground and logs to standard error. On SIGTERM "
    "it accepts no new work, waits for work in progress, and exits. On SIGHUP "
    "it reads the configuration again.";

static void put_examples(const struct daemon_plan *p, struct buf *b)
{
    buf_printf(b,
               "  grapnel-%s --check -c grapnel.yaml\n"
               "  grapnel-%s -c grapnel.yaml -n %s\n",
               p->process, p->process, p->default_name);
}

static void put_usage(const struct daemon_plan *p, struct buf *b)
{
    buf_printf(b, "usage: grapnel-%s [options]\n\n%s\n\n", p->process,
               p->summary);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char name[40];

        snprintf(name, sizeof name, "%s%s%s", table[i].name,
                 table[i].value ? " " : "",
                 table[i].value ? table[i].value : "");
        if (table[i].letter)
            buf_printf(b, "  -%c, %-14s %s\n", table[i].letter, name,
                       table[i].help);
        else
            buf_printf(b, "      %-14s %s\n", name, table[i].help);
    }
    buf_printf(
        b, "\nThe process runs in the foreground and logs to standard error. "
           "SIGTERM stops it, SIGHUP reloads its configuration.\nExit codes: ");
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        buf_printf(b, "%s%d %s", i ? ",\n" : "", codes[i].code, codes[i].help);
    buf_puts(b, ".\n\nExamples\n");
    put_examples(p, b);
}

static void put_manual(const struct daemon_plan *p, struct buf *b)
{
    char *name = gr_printf("grapnel-%s", p->process);
    struct buf examples;

    buf_init(&examples, TEXT_MAX);
    put_examples(p, &examples);
    manual_begin(b, name, 8, p->summary);
    manual_section(b, "SYNOPSIS");
    manual_usage(b, name, "[options]");
    manual_section(b, "DESCRIPTION");
    manual_text(b, running);
    manual_text(b, "The process keeps its state in state_dir/NAME.db, to which "
                   "no other process writes. The grapnel command reaches it at "
                   "run_dir/NAME.control.");
    manual_section(b, "OPTIONS");
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char word[40] = "";

        if (table[i].letter)
            snprintf(word, sizeof word, "-%c, ", table[i].letter);
        snprintf(word + strlen(word), sizeof word - strlen(word), "%s",
                 table[i].name);
        manual_entry(b, word, table[i].value, table[i].help);
    }
    manual_section(b, "EXIT STATUS");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        char code[16];

        snprintf(code, sizeof code, "%d", codes[i].code);
        manual_entry(b, code, NULL, codes[i].help);
    }
    manual_section(b, "EXAMPLES");
    manual_lines(b, examples.data);
    manual_section(b, "SEE ALSO");
    manual_text(b, "grapnel(1), grapnel.yaml(5)");
    buf_fini(&examples);
    free(name);
}

static void put_metrics(const struct daemon_plan *p, struct buf *b)
{
    struct metrics_tables tables = daemon_metrics_tables(p);

    metrics_document(p->process, &tables, b);
}

static void print(const struct daemon_plan *p, FILE *to,
                  void (*put)(const struct daemon_plan *p, struct buf *b))
{
    struct buf b;

    buf_init(&b, TEXT_MAX);
    put(p, &b);
    fwrite(b.data, 1, b.len, to);
    buf_fini(&b);
}

static bool is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return n > 0 && n <= NAME_MAX_BYTES && !s[n] && *s != '_' && *s != '-';
}

/* A name says what kind of process it is, for peers, tools/down and the command line:
 * "deliverer" or "deliverer-…" is a deliverer. */
static bool is_name_of(const char *process, const char *name)
{
    size_t n = strlen(process);

    return strncmp(name, process, n) == 0 && (!name[n] || name[n] == '-');
}

_Noreturn static void bad_usage(const struct daemon_plan *p, const char *what)
{
    fprintf(stderr, "grapnel-%s: %s\nSee `grapnel-%s --help`.\n", p->process,
            what, p->process);
    exit(EXIT_USAGE);
}

/* getopt returns ':' for a missing value, '?' for an unknown option. */
_Noreturn static void bad_option(const struct daemon_plan *p, int c,
                                 const char *word)
{
    char *name = gr_strndup(word, strcspn(word, "=")), what[200], hint[100];
    struct conf_near near = {.text = name};

    if (c == ':') {
        snprintf(what, sizeof what, "%.60s needs a value", name);
        bad_usage(p, what);
    }
    snprintf(what, sizeof what, "there is no option %.60s", name);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (strcmp(name, table[i].name) == 0) {
            snprintf(what, sizeof what, "%.60s takes no value", name);
            bad_usage(p, what);
        }
        conf_near_try(&near, table[i].name);
    }
    conf_near_hint(&near, hint);
    snprintf(what + strlen(what), sizeof what - strlen(what), "%s", hint);
    free(name);
    bad_usage(p, what);
}

static void read_one(const struct daemon_plan *p, struct daemon_options *o,
                     const char *name)
{
    if (strcmp(name, "--config") == 0) {
        o->config = optarg;
    } else if (strcmp(name, "--name") == 0) {
        o->name = optarg;
    } else if (strcmp(name, "--check") == 0) {
        o->check = true;
    } else {
        if (strcmp(name, "--version") == 0)
            printf("grapnel-%s %s\n", p->process, GRAPNEL_VERSION);
        else
            print(p, stdout,
                  strcmp(name, "--metrics") == 0 ? put_metrics
                  : strcmp(name, "--man") == 0   ? put_manual
                                                 : put_usage);
        exit(0);
    }
}

struct daemon_options daemon_options_read(const struct daemon_plan *p, int argc,
                                          char **argv)
{
    struct option longs[COUNT_OF(table) + 1] = {0};
    struct daemon_options o = {.config = settings_path(NULL),
                               .name = p->default_name};
    int c, at = 0;

    for (size_t i = 0; i < COUNT_OF(table); i++)
        longs[i] = (struct option){table[i].name + strlen("--"),
                                   table[i].value ? required_argument
                                                  : no_argument,
                                   NULL, table[i].letter};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":c:n:h", longs, &at)) != -1) {
        if (c == ':' || c == '?')
            bad_option(p, c, argv[optind - 1]);
        for (size_t i = 0; c && i < COUNT_OF(table); i++)
            if (table[i].letter == c)
                at = (int)i;
        read_one(p, &o, table[at].name);
    }
    if (optind < argc)
        bad_usage(p, "a process takes options, but no arguments");
    if (!is_name(o.name))
        bad_usage(p, "a name is [a-z0-9][a-z0-9_-]*, at most 63 bytes");
    if (!is_name_of(p->process, o.name)) {
        char what[300];

        snprintf(what, sizeof what,
                 "--name %s is not a name for this kind of process: use %s, or "
                 "%s-… (such as %s-2)",
                 o.name, p->process, p->process, p->process);
        bad_usage(p, what);
    }
    return o;
}
