/* What people did, as it stands in `acts`. */
#include "store_search.h"
#include "trace.h"
#include <stdio.h>
#include <string.h>

struct acts {
    struct trace *t;
    const char *told; /* the subject, before what was done; "": it is plain */
};

static void on_act(void *arg, int64_t at_ms, const char *what)
{
    struct acts *a = arg;

    trace_say(a->t, at_ms, "%s%s%s", a->told, *a->told ? ": " : "", what);
}

void trace_acts(struct trace *t, const char *subject, const char *told,
                int64_t from_ms, int64_t to_ms)
{
    store_acts(t->q->search, subject, from_ms, to_ms, on_act,
               &(struct acts){t, told});
}

enum { WORD_BYTES = 8 };

/* Its first word, as far as it fits. */
static void act_word(void *arg, int64_t at_ms, const char *what)
{
    (void)at_ms;
    snprintf(arg, WORD_BYTES, "%.*s", (int)strcspn(what, " :"), what);
}

void trace_hold_before(struct trace *t, const char *subject, int64_t at_ms)
{
    char word[WORD_BYTES] = "";

    store_act_before(t->q->search, subject, at_ms, act_word, word);
    if (strcmp(word, "paused") == 0 || strcmp(word, "disable") == 0)
        store_act_before(t->q->search, subject, at_ms, on_act,
                         &(struct acts){t, subject});
}
