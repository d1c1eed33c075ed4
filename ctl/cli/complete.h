/* complete: what may follow at the cursor of a shell. complete_plan() decides by the table of
 * commands and is pure; complete_print() looks the names up in the running processes, or in the
 * configuration when no process runs. */
#ifndef CTL_COMPLETE_H
#define CTL_COMPLETE_H

#include "ctl.h"

/* The kind of a value. */
enum words {
    WORDS_FREE, /* any text: no completion */
    WORDS_FILE,
    WORDS_FOLDER,
    WORDS_ENDPOINT,
    WORDS_SOURCE,
    WORDS_POLICY,
    WORDS_PROVIDER,
    WORDS_ALERT, /* or a notifier */
    WORDS_WORKSPACE,
    WORDS_EVENT,
    WORDS_DUPLICATE, /* a suppressed event */
    WORDS_DEAD_LETTER,
    WORDS_GAP,
    WORDS_TYPE, /* of the catalogue */
    WORDS_PROCESS,
    WORDS_CHOICE, /* one of `choices` */
};

struct completion {
    const struct command *command; /* NULL: not named yet */
    const char *
        first; /* complete a command that begins with this word; "": any command */
    bool options; /* an option may follow */
    enum words words;
    const char *const *choices; /* ends with NULL */
    char *head;                 /* "--endpoint=", put before each word; owned */
    const char *begun;          /* the word begins with this */
    const char *config;         /* of --config, or NULL */
    const char *run_dir;        /* of --run-dir, or NULL */
    const char *const *words_given; /* before the cursor */
    int given;
};

/* `words` follow the program's name; the last one is at the cursor and may be "". They are
 * borrowed. The caller calls complete_fini(). */
void complete_plan(const struct command *commands, const char *const *words,
                   int count, struct completion *out);
void complete_fini(struct completion *c);
/* The kind of the value of an option, or of the argument (`option` NULL), of the command.
 * false: no table has it; a unit test checks that every option and argument is in one. */
bool complete_kind(const struct command *command, const char *option,
                   enum words *out, const char *const **choices);

/* Prints a word per line, a tab and its meaning; or ":files" or ":folders". A shell waits for
 * it at each press of a key: a process has 700 ms to respond, and no error is printed. */
int complete_print(struct ctl *c, const char *const *words, int count);

#endif
