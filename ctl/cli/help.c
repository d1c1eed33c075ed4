/* help: prints --help and the manual page from the table of commands. */
#include "config.h"
#include "ctl.h"
#include "manual.h"
#include "table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANUAL_MAX_BYTES = 4 * 1024 * 1024,
    COMMAND_WIDTH = 24,
    OPTION_WIDTH = 22,
};

static const struct {
    const char *word, *value, *help;
} globals[] = {
    {"-c, --config", "FILE",
     "default $GRAPNEL_CONFIG, then /etc/grapnel/grapnel.yaml"},
    {"    --run-dir", "DIR",
     "the folder of the processes' sockets; default: run_dir of FILE"},
    {"    --json", NULL, "print one JSON document"},
    {"    --local", NULL, "print times in the local time zone, not in UTC"},
    {"-h, --help", NULL, "print this help"},
};

static const struct {
    const char *code, *help;
} codes[] = {
    {"0", "done"},
    {"1", "not found or refused"},
    {"64", "wrong command line"},
    {"69", "a process cannot be reached"},
    {"78", "the configuration has errors"},
};

/* Pads to `width` characters, which differ from bytes in UTF-8. */
static void print_option(int width, const char *indent, const char *word,
                         const char *value, const char *help)
{
    char name[80];

    snprintf(name, sizeof name, "%s%s%s%s", indent, word, value ? " " : "",
             value ? value : "");
    printf("%s%*s %s\n", name, width - (int)text_width(name), "", help);
}

static void print_globals(void)
{
    for (size_t i = 0; i < COUNT_OF(globals); i++)
        print_option(OPTION_WIDTH, "  ", globals[i].word, globals[i].value,
                     globals[i].help);
}

void help_all(void)
{
    printf("usage: grapnel COMMAND [options]\n\n");
    for (const struct command *c = ctl_commands; c->name; c++)
        print_option(COMMAND_WIDTH, "  ", c->name, *c->args ? c->args : NULL,
                     c->summary);
    printf("\n");
    print_globals();
    printf("      --version\n\n`grapnel COMMAND --help` shows options and "
           "examples; so does man grapnel.\nExit codes: ");
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        printf("%s%s %s",
               i == 3 ? ",\n"
               : i    ? ", "
                      : "",
               codes[i].code, codes[i].help);
    printf(".\n\nExamples\n"
           "  grapnel status\n"
           "  grapnel trace evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
           "  grapnel dlq --endpoint crm --json\n");
}

void help_one(const struct command *c)
{
    printf("usage: grapnel %s%s%s [options]\n\n%s\n", c->name,
           *c->args ? " " : "", c->args, c->summary);
    if (*c->help)
        printf("\n%s\n", c->help);
    printf("\n");
    for (const struct option_spec *o = c->options; o->name; o++) {
        char *help = option_help(c, o);

        print_option(OPTION_WIDTH, "      ", o->name, option_value(c, o), help);
        free(help);
    }
    print_globals();
    printf("\nExamples\n%s", c->examples);
}

void help_family(const char *word)
{
    size_t n = strlen(word);
    bool first = true;

    for (const struct command *c = ctl_commands; c->name; c++) {
        if (strncmp(c->name, word, n) != 0 || c->name[n] != ' ')
            continue;
        printf("%s", first ? "" : "\n");
        help_one(c);
        first = false;
    }
}

/* ---- the manual page ---- */

static void put_manual(struct buf *b)
{
    manual_begin(b, "grapnel", 1,
                 "operate Grapnel: check, trace, retry, back up");
    manual_section(b, "SYNOPSIS");
    manual_usage(b, "grapnel", "COMMAND [options]");
    manual_section(b, "DESCRIPTION");
    manual_text(b,
                "The command asks the running processes over their control "
                "sockets, reads the configuration, and sends events to ingress "
                "as a provider does. Its output is a table, with colours on a "
                "terminal; with --json it is one JSON document. Options may "
                "follow the command's name in any place.");
    manual_section(b, "OPTIONS");
    for (size_t i = 0; i < COUNT_OF(globals); i++)
        manual_entry(b, globals[i].word + strspn(globals[i].word, " "),
                     globals[i].value, globals[i].help);
    manual_section(b, "COMMANDS");
    for (const struct command *c = ctl_commands; c->name; c++) {
        char *title = gr_printf("grapnel %s%s%s", c->name, *c->args ? " " : "",
                                c->args),
             *summary = gr_printf("%s.", c->summary);

        manual_subsection(b, title);
        manual_text(b, summary);
        if (*c->help)
            manual_text(b, c->help);
        for (const struct option_spec *o = c->options; o->name; o++) {
            char *help = option_help(c, o);

            manual_entry(b, o->name, option_value(c, o), help);
            free(help);
        }
        manual_lines(b, c->examples);
        free(title);
        free(summary);
    }
    manual_section(b, "EXIT STATUS");
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        manual_entry(b, codes[i].code, NULL, codes[i].help);
    manual_section(b, "ENVIRONMENT");
    manual_entry(b, "GRAPNEL_CONFIG", NULL,
                 "the configuration, without --config");
    manual_entry(
        b, "GRAPNEL_RUN_DIR", NULL,
        "the folder of the processes' sockets, without --run-dir and --config");
    manual_entry(b, "NO_COLOR", NULL, "if set, output has no colours");
    manual_section(b, "SEE ALSO");
    manual_text(b,
                "grapnel.yaml(5), grapnel-ingress(8), grapnel-sequencer(8), "
                "grapnel-deliverer(8), grapnel-dlqd(8), "
                "grapnel-outbox(8), grapnel-reconcile(8), grapnel-console(8)");
}

void help_manual(const char *page)
{
    struct buf b;

    buf_init(&b, MANUAL_MAX_BYTES);
    if (page && strcmp(page, "grapnel.yaml") == 0)
        settings_manual(&b);
    else
        put_manual(&b);
    fwrite(b.data, 1, b.len, stdout);
    buf_fini(&b);
}
