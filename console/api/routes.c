/* routes: matches paths segment by segment. */
#include "routes.h"
#include "commands.h"
#include "json_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct route {
    const struct command_spec *command;
    const char *method, *path;
};

struct routes {
    struct route *all;
    size_t count;
};

struct routes *routes_open(void)
{
    struct routes *r = gr_alloc(sizeof *r);

    for (size_t t = 0; command_lists[t].commands; t++)
        for (const struct command_spec *const *c = command_lists[t].commands;
             *c; c++)
            for (size_t i = 0;
                 i < COUNT_OF((*c)->routes) && (*c)->routes[i].path; i++) {
                r->all = gr_realloc(r->all, (r->count + 1) * sizeof *r->all);
                r->all[r->count++] = (struct route){*c, (*c)->routes[i].method,
                                                    (*c)->routes[i].path};
            }
    return r;
}

void routes_close(struct routes *r)
{
    free(r->all);
    free(r);
}

/* ---- decoding ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *percent_decode(const char *text, size_t n, bool form)
{
    char *out = gr_alloc(n + 1);
    size_t len = 0;
    bool good = true;

    for (size_t i = 0; i < n && good; i++) {
        char c = text[i];

        if (c == '%') {
            int high = n - i > 2 ? hex(text[i + 1]) : -1;
            int low = high >= 0 ? hex(text[i + 2]) : -1;

            good = low >= 0 && (high || low); /* not a NUL */
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && form) {
            c = ' ';
        }
        out[len++] = c;
    }
    if (good && utf8_valid((struct bytes){out, len}))
        return out;
    free(out);
    return NULL;
}

/* ---- matching ---- */

struct segment {
    const char *p;
    size_t n;
};

/* "/a/b" has two. 0: it does not begin with a slash, or has too many. */
static size_t split(const char *path, struct segment out[ROUTE_PARTS_MAX])
{
    size_t n = 0;

    while (*path == '/') {
        path++;
        if (n == ROUTE_PARTS_MAX)
            return 0;
        out[n] = (struct segment){path, strcspn(path, "/")};
        path += out[n++].n;
    }
    return *path ? 0 : n;
}

static bool is_parameter(const struct segment *s)
{
    return s->n > 2 && s->p[0] == '{' && s->p[s->n - 1] == '}';
}

/* How many segments are literally equal; -1: the route has another path. `values`: the decoded
 * segments of the path; NULL: not decodable. */
static int fits(const char *route, char *const *values, size_t count)
{
    struct segment parts[ROUTE_PARTS_MAX];
    int equal = 0;

    if (split(route, parts) != count)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (is_parameter(&parts[i])) {
            if (!*values[i])
                return -1;
        } else if (strlen(values[i]) == parts[i].n &&
                   memcmp(values[i], parts[i].p, parts[i].n) == 0) {
            equal++;
        } else {
            return -1;
        }
    }
    return equal;
}

static void add_method(char methods[ROUTE_METHODS_BYTES], const char *method)
{
    size_t n = strlen(methods);

    if (strstr(methods, method))
        return;
    snprintf(methods + n, ROUTE_METHODS_BYTES - n, "%s%s", n ? ", " : "",
             strcmp(method, "GET") == 0 ? "GET, HEAD" : method);
}

static void take_values(struct route_match *out, const char *route,
                        char **values)
{
    struct segment parts[ROUTE_PARTS_MAX];
    size_t count = split(route, parts);

    for (size_t i = 0; i < count; i++) {
        if (!is_parameter(&parts[i]))
            continue;
        out->values[out->value_count].name = parts[i].p + 1;
        out->values[out->value_count].name_bytes = parts[i].n - 2;
        out->values[out->value_count++].value = values[i];
        values[i] = NULL;
    }
}

void routes_match(const struct routes *r, const char *method, const char *path,
                  struct route_match *out)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    struct segment parts[ROUTE_PARTS_MAX];
    size_t count = split(path, parts);
    char *values[ROUTE_PARTS_MAX] = {NULL};
    const struct route *best = NULL;
    bool good = count > 0;
    int most = -1;

    *out = (struct route_match){.known = false};
    for (size_t i = 0; i < count; i++) {
        values[i] = percent_decode(parts[i].p, parts[i].n, false);
        good = good && values[i];
    }
    /* A path with a word in it, /dead-letters/stats, is not /dead-letters/{id}. */
    for (size_t i = 0; good && i < r->count; i++) {
        int equal = fits(r->all[i].path, values, count);

        most = equal > most ? equal : most;
    }
    for (size_t i = 0; most >= 0 && i < r->count; i++) {
        if (fits(r->all[i].path, values, count) != most)
            continue;
        out->known = true;
        add_method(out->methods, r->all[i].method);
        if (strcmp(r->all[i].method, wanted) == 0)
            best = &r->all[i];
    }
    if (best) {
        out->command = best->command;
        take_values(out, best->path, values);
    }
    for (size_t i = 0; i < count; i++)
        free(values[i]);
}

void route_match_fini(struct route_match *m)
{
    for (size_t i = 0; i < m->value_count; i++)
        free(m->values[i].value);
    m->value_count = 0;
}
