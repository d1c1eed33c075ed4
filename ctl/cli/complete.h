/* complete: what may stand where the cursor is, for shells. complete_plan() is
 * pure and works by the table of commands; the names are looked up by
 * complete_print(), in the running system or, when nothing runs, in the
 * configuration. */
#ifndef CTL_COMPLETE_H
#define CTL_COMPLETE_H

#include "ctl.h"

/* What a value is. */
enum words {
    WORDS_FREE, /* nothing can be said */
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
    WORDS_PROCESS,
    WORDS_CHOICE, /* one of `choices` */
};

struct completion {
    const struct command *command; /* NULL: none was named yet */
    const char *first;             /* a command's first word is to be ended */
    bool options;                  /* options of the command may stand here */
    enum words words;
    const char *choices; /* separated by spaces */
    char *head;          /* "--endpoint=", put before each word; owned */
    const char *begun;   /* how it begins: only such words */
    const char *config;  /* the file that was named, NULL */
    const char *run_dir; /* the folder that was named, NULL */
    const char *const *words_given; /* those before */
    int given;
};

/* `words` after the program's name; the last one is under the cursor, perhaps
 * "". Borrows them. complete_fini() after. */
void complete_plan(const struct command *commands, const char *const *words,
                   int count, struct completion *out);
void complete_fini(struct completion *c);
/* What the value of an option, or an argument (NULL), of the command is.
 * false: nobody has said; the test sees to it. */
bool complete_kind(const struct command *command, const char *option,
                   enum words *out, const char **choices);

/* A word a line, with a tab and what it means; or ":files", ":folders". */
int complete_print(struct ctl *c, const char *const *words, int count);

#endif
