/* pages: lists that are sent page by page, as one answer is bounded. What has come
 * is printed before the next page is asked for, so that our memory is bounded,
 * too, however long the list. */
#include "pages.h"
#include "ask.h"
#include "names.h"
#include <stdio.h>

/* Of the table of people: columns are as wide as these rows need. */
enum { PAGE = 1000 };

struct printing {
    const struct listing *l;
    struct ctl *c;
    json_t *rows;  /* not printed yet */
    int64_t count; /* printed */
};

static void print_rows(struct printing *p)
{
    json_t *row;
    size_t i;

    if (!p->c->json && json_array_size(p->rows))
        p->l->print(p->c, p->rows);
    json_array_foreach(p->rows, i, row)
    {
        if (p->c->json) {
            printf("%s", p->count ? ",\n" : "[\n");
            json_dumpf(row, stdout, JSON_INDENT(2));
        }
        p->count++;
    }
    json_array_clear(p->rows);
}

static void print_end(const struct printing *p)
{
    if (p->c->json)
        printf("%s\n", p->count ? "\n]" : "[]");
    else if (!p->count)
        printf("%s\n", p->l->none);
}

/* One more page. *code: what to exit with if it went wrong. true: go on. */
static bool next_page(struct printing *p, int64_t missing, int *code)
{
    const struct listing *l = p->l;
    json_t *answer, *next;
    bool unreachable, more;
    char why[200];

    json_object_set_new(l->args, "limit",
                        json_integer(missing < PAGE ? missing : PAGE));
    answer = ask(p->c, l->process, l->ask, json_incref(l->args), ASK_MS,
                 &unreachable, why);
    if (!answer) {
        *code = unreachable ? complain_away(p->c, l->process, why)
                            : complain(EXIT_REFUSED, "%s", why);
        return false;
    }
    json_array_extend(p->rows, json_object_get(answer, l->key));
    next = json_object_get(answer, "next");
    more = json_is_string(next);
    if (more)
        json_object_set(l->args, "before", next);
    json_decref(answer);
    return more;
}

int list_pages(struct ctl *c, const struct listing *l)
{
    struct printing p = {.l = l, .c = c, .rows = json_array()};
    int64_t limit = list_limit(c), missing;
    bool more = true;
    int code = 0;

    while (more &&
           (missing = limit - p.count - (int64_t)json_array_size(p.rows)) > 0) {
        more = next_page(&p, missing, &code);
        if (json_array_size(p.rows) >= PAGE)
            print_rows(&p);
    }
    if (!code) { /* else what is printed is no whole document, and says so */
        print_rows(&p);
        if (p.count || c->json)
            print_end(&p);
        fflush(stdout);
        if (!p.count && l->filters)
            code = unknown_filter(c, l->filters);
        if (!p.count && !c->json && !code)
            print_end(&p);
    }
    json_decref(p.rows);
    return code;
}
