/* against_report: counts differences, and keeps the first examples of each. */
#include "against.h"
#include "alloc.h"
#include "json_text.h"
#include "lookup.h"
#include <stdlib.h>
#include <string.h>

/* One kind of difference at one source or endpoint. */
struct group {
    enum difference kind;
    char *subject;
    int64_t count;
    json_t *examples;
};

/* Sentences, with how often each applies. */
struct reason {
    const char *why;
    char *source; /* NULL: of no source */
    int64_t count;
};

struct report {
    size_t examples_max;
    int64_t judged;
    struct group *groups;
    size_t group_count;
    struct lookup index; /* of groups, by kind and subject */
    struct reason *unjudged, *unverified;
    size_t unjudged_count, unverified_count;
};

struct report *report_new(size_t examples)
{
    struct report *r = gr_alloc(sizeof *r);

    r->examples_max = examples;
    return r;
}

static void free_reasons(struct reason *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(all[i].source);
    free(all);
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->group_count; i++) {
        free(r->groups[i].subject);
        json_decref(r->groups[i].examples);
    }
    free(r->groups);
    lookup_fini(&r->index);
    free_reasons(r->unjudged, r->unjudged_count);
    free_reasons(r->unverified, r->unverified_count);
    free(r);
}

/* Sources and endpoints are those of the file or of rows, so there are not many groups. */
static struct group *group_of(struct report *r, enum difference kind,
                              const char *subject)
{
    uint64_t key = lookup_text(subject) + kind;
    size_t i;

    for (size_t at = 0; (i = lookup_next(&r->index, key, &at)) != LOOKUP_END;)
        if (r->groups[i].kind == kind &&
            strcmp(r->groups[i].subject, subject) == 0)
            return &r->groups[i];
    r->groups = gr_realloc(r->groups, (r->group_count + 1) * sizeof *r->groups);
    r->groups[r->group_count] = (struct group){
        .kind = kind, .subject = gr_strdup(subject), .examples = json_array()};
    lookup_put(&r->index, key, r->group_count);
    return &r->groups[r->group_count++];
}

void report_difference(struct report *r, enum difference kind,
                       const char *subject, const char *id, const char *before,
                       const char *after)
{
    struct group *g = group_of(r, kind, subject);

    g->count++;
    if (json_array_size(g->examples) < r->examples_max)
        json_array_append_new(g->examples,
                              json_pack("{s:s, s:o, s:o}", "id", id, "before",
                                        json_text_of(before), "after",
                                        json_text_of(after)));
}

static void count(struct reason **all, size_t *n, const char *source,
                  const char *why)
{
    struct reason *reason = NULL;

    for (size_t i = 0; i < *n && !reason; i++)
        if ((*all)[i].why == why &&
            (!source || strcmp((*all)[i].source, source) == 0))
            reason = &(*all)[i];
    if (!reason) {
        *all = gr_realloc(*all, (*n + 1) * sizeof **all);
        reason = &(*all)[(*n)++];
        *reason = (struct reason){.why = why,
                                  .source = source ? gr_strdup(source) : NULL};
    }
    reason->count++;
}

void report_unjudged(struct report *r, const char *why)
{
    count(&r->unjudged, &r->unjudged_count, NULL, why);
}

void report_unverified(struct report *r, const char *source, const char *why)
{
    count(&r->unverified, &r->unverified_count, source, why);
}

void report_judged(struct report *r)
{
    r->judged++;
}

static const struct {
    const char *word, *text;
} kinds[] = {
#define D(NAME, word, text) {word, text},
    DIFFERENCES(D)
#undef D
};

static int by_kind(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->kind != y->kind ? (int)x->kind - (int)y->kind
                              : strcmp(x->subject, y->subject);
}

static json_t *group_json(const struct group *g)
{
    bool endpoint = g->kind == DIFFERENCE_ROUTED ||
                    g->kind == DIFFERENCE_NOT_ROUTED;

    return json_pack("{s:s, s:s, s:o, s:I, s:O}", "kind", kinds[g->kind].word,
                     "what", kinds[g->kind].text,
                     endpoint ? "endpoint" : "source", json_text_of(g->subject),
                     "count", (json_int_t)g->count, "examples", g->examples);
}

static json_t *reasons_json(const struct reason *all, size_t n)
{
    json_t *out = json_array(), *one;

    for (size_t i = 0; i < n; i++) {
        one = json_pack("{s:s, s:I}", "why", all[i].why, "count",
                        (json_int_t)all[i].count);
        if (all[i].source)
            json_object_set_new(one, "source", json_text_of(all[i].source));
        json_array_append_new(out, one);
    }
    return out;
}

json_t *report_json(const struct report *r)
{
    struct group *sorted = gr_alloc((r->group_count + 1) * sizeof *sorted);
    json_t *differences = json_array();

    if (r->group_count)
        memcpy(sorted, r->groups, r->group_count * sizeof *sorted);
    qsort(sorted, r->group_count, sizeof *sorted, by_kind);
    for (size_t i = 0; i < r->group_count; i++)
        json_array_append_new(differences, group_json(&sorted[i]));
    free(sorted);
    return json_pack("{s:I, s:o, s:o, s:o}", "judged", (json_int_t)r->judged,
                     "differences", differences, "unjudged",
                     reasons_json(r->unjudged, r->unjudged_count), "unverified",
                     reasons_json(r->unverified, r->unverified_count));
}
