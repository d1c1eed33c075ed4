/* list: prints lists of JSON objects. A process sends a long list page by page, because one
 * reply is bounded; each page is printed before the next one is requested, so that the memory of
 * this command is bounded, too. */
#include "list.h"
#include "ask.h"
#include "names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one page, and of one table: its columns are as wide as these rows need. */
enum { PAGE = 1000 };

/* ---- a table ---- */

static void add_cell(struct table *t, const struct column *k, const json_t *row)
{
    char text[32];

    if (k->cell) {
        k->cell(t, row);
        return;
    }
    switch (k->kind) {
    case COLUMN_TEXT:
        table_add(t, PLAIN, "%s", text_of(row, k->key));
        break;
    case COLUMN_OR_DASH:
        table_add(t, PLAIN, "%s", text_or_dash(row, k->key));
        break;
    case COLUMN_TIME:
        table_add(t, PLAIN, "%s", time_of(row, k->key));
        break;
    case COLUMN_DURATION:
        table_add(t, PLAIN, "%s", human_ms(integer_of(row, k->key), text));
        break;
    case COLUMN_BYTES:
        table_add(t, PLAIN, "%s", human_bytes(integer_of(row, k->key), text));
        break;
    }
}

void print_rows(struct ctl *c, const struct column *columns, const json_t *rows,
                int indent)
{
    const char *heads[TABLE_COLUMNS_MAX + 1] = {NULL};
    struct table t;
    json_t *row;
    size_t i;

    for (size_t k = 0; columns[k].head; k++)
        heads[k] = columns[k].head;
    table_init(&t, heads);
    json_array_foreach(rows, i, row) for (const struct column *k = columns;
                                          k->head; k++) add_cell(&t, k, row);
    table_print(&t, stdout, c->colour, indent);
    table_fini(&t);
}

void print_list(struct ctl *c, const struct column *columns, const json_t *list,
                const char *none)
{
    if (c->json)
        print_json(json_incref((json_t *)(uintptr_t)list));
    else if (json_array_size(list))
        print_rows(c, columns, list, 0);
    else
        printf("%s\n", none);
}

static int compare_rows(const void *left, const void *right, void *key)
{
    const json_t *const *a = left, *const *b = right;

    return -strcmp(json_string_value(json_object_get(*a, key)),
                   json_string_value(json_object_get(*b, key)));
}

json_t *list_newest(const json_t *rows, const char *key, size_t max)
{
    size_t n = json_array_size(rows);
    json_t **all = gr_alloc((n + 1) * sizeof *all), *out = json_array();

    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(rows, i);
    qsort_r(all, n, sizeof *all, compare_rows, (void *)(uintptr_t)key);
    for (size_t i = 0; i < n && i < max; i++)
        json_array_append(out, all[i]);
    free(all);
    return out;
}

/* ---- page by page ---- */

struct printing {
    const struct page_listing *l;
    struct ctl *c;
    json_t *rows;  /* not printed yet */
    int64_t count; /* printed */
};

static void print_page(struct printing *p)
{
    json_t *row;
    size_t i;

    if (!p->c->json && json_array_size(p->rows))
        print_rows(p->c, p->l->columns, p->rows, 0);
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

int list_pages(struct ctl *c, const struct page_listing *l)
{
    struct printing p = {.l = l, .c = c, .rows = json_array()};
    int64_t limit = list_limit(c), missing;
    json_t *reply, *next;
    bool more = true;
    int code = 0;

    while (more &&
           (missing = limit - p.count - (int64_t)json_array_size(p.rows)) > 0) {
        json_object_set_new(l->args, "limit",
                            json_integer(missing < PAGE ? missing : PAGE));
        reply = ask_needed(c, l->process, l->ask, json_incref(l->args), ASK_MS,
                           &code);
        json_array_extend(p.rows, json_object_get(reply, l->key));
        next = json_object_get(reply, "next");
        more = json_is_string(next);
        if (more)
            json_object_set(l->args, l->next ? l->next : "before", next);
        json_decref(reply);
        if (json_array_size(p.rows) >= PAGE)
            print_page(&p);
    }
    if (!code) { /* else the document stays open, so that no program takes it for complete */
        print_page(&p);
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
