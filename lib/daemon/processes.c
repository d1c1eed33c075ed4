/* processes: finds processes by their control sockets in run_dir, and by their databases. */
#include "processes.h"
#include "alloc.h"
#include "bounds.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"ingress", "sequencer", "deliverer", "dlqd",
                                    "outbox",  "reconcile", "console"};
enum {
    NEEDED = 4, /* the first four: delivery needs them */
    HOST_MAX_BYTES = 400,
};

bool process_is(const char *name, const char *wanted)
{
    for (const char *kind = wanted; *kind; kind += strspn(kind, " ")) {
        size_t n = strcspn(kind, " ");

        if (strncmp(name, kind, n) == 0 && (!name[n] || name[n] == '-'))
            return true;
        kind += n;
    }
    return false;
}

bool processes_exchange(const char *a, const char *b)
{
    static const char others[] = "ingress deliverer dlqd";

    return (process_is(a, "sequencer") && process_is(b, others)) ||
           (process_is(b, "sequencer") && process_is(a, others));
}

int process_rank(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (process_is(name, kinds[i]))
            return (int)i;
    return COUNT_OF(kinds);
}

/* By kind, then deliverer-2 before deliverer-10. */
static int compare(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int ranks = process_rank(x) - process_rank(y);

    return ranks ? ranks : strverscmp(x, y);
}

static void add(struct processes *p, const char *name, size_t n)
{
    p->names = gr_realloc(p->names, (p->count + 1) * sizeof *p->names);
    p->names[p->count++] = gr_strndup(name, n);
}

static bool has(const struct processes *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->count; i++)
        if (strncmp(p->names[i], name, n) == 0 && !p->names[i][n])
            return true;
    return false;
}

/* Adds NAME of each file NAME.SUFFIX that is not in the list yet. false: errno says why the folder cannot
 * be read. */
static bool add_files(struct processes *p, const char *folder,
                      const char *suffix, bool known_kinds)
{
    const size_t s = strlen(suffix);
    DIR *dir = opendir(folder);
    struct dirent *e;

    if (!dir)
        return false;
    while ((e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        if (n > s && n - s <= NAME_MAX_BYTES &&
            strcmp(e->d_name + n - s, suffix) == 0 &&
            !has(p, e->d_name, n - s)) {
            add(p, e->d_name, n - s);
            if (known_kinds &&
                process_rank(p->names[p->count - 1]) == COUNT_OF(kinds))
                free(p->names[--p->count]);
        }
    }
    closedir(dir);
    return true;
}

/* Adds one of each kind that delivery needs, if there is none, and sorts. */
static void complete(struct processes *p)
{
    for (size_t k = 0; k < NEEDED; k++) {
        bool there = false;

        for (size_t i = 0; i < p->count; i++)
            there |= process_is(p->names[i], kinds[k]);
        if (!there && strcmp(kinds[k], "deliverer") == 0)
            add(p, "deliverer-1", strlen("deliverer-1"));
        else if (!there)
            add(p, kinds[k], strlen(kinds[k]));
    }
    qsort(p->names, p->count, sizeof *p->names, compare);
}

char *process_host(const char *run_dir, const char *name)
{
    char *path = gr_printf("%s/%s.host", run_dir, name), text[HOST_MAX_BYTES];
    FILE *file = fopen(path, "re");
    char *line = file ? fgets(text, sizeof text, file) : NULL;

    if (file)
        fclose(file);
    free(path);
    return line ? gr_strndup(line, strcspn(line, "\n")) : NULL;
}

void processes_in(const char *run_dir, struct processes *p)
{
    *p = (struct processes){0};
    (void)add_files(p, run_dir, ".control", false);
    (void)add_files(p, run_dir, ".host", true);
    complete(p);
}

gr_rc processes_with_data(const char *run_dir, const char *state_dir,
                          struct processes *p, char why[200])
{
    *p = (struct processes){0};
    (void)add_files(p, run_dir, ".control", false);
    (void)add_files(p, run_dir, ".host", true);
    if (!add_files(p, state_dir, ".db", true)) {
        snprintf(why, 200, "%.100s: %s", state_dir, strerror(errno));
        processes_fini(p);
        return GR_REFUSE;
    }
    complete(p);
    return GR_OK;
}

void processes_fini(struct processes *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->names[i]);
    free(p->names);
    *p = (struct processes){0};
}
