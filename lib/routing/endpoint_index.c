/* endpoint_index: a changing index of subscriptions by the workspaces that they name. */
#include "endpoint_index.h"
#include "alloc.h"
#include "lookup.h"
#include "route.h"
#include <stdlib.h>
#include <string.h>

/* One subscription in one group: those that name one workspace, or those that are tried for
 * every event. A group is a ring; the lookup has one member of it, its head. */
struct member {
    struct member *next, *before;
    struct entry *entry;
    const char *workspace; /* NULL: tried for every event */
};

/* All of it is one block of memory, except the conditions of `where`: the members, one for
 * each literal workspace, or one; then the pointers and the texts of the lists. */
struct entry {
    struct own_subscription is;
    size_t number;
    struct member members[];
};

struct endpoint_index {
    struct entry **entries; /* by number */
    size_t capacity;
    struct lookup groups; /* heads, by workspace */
    struct member
        *always; /* the head of those that are tried for every event */
    size_t *subscribed;
    size_t subscribed_count, subscribed_capacity;
};

void own_subscription_fini(struct own_subscription *o)
{
    string_list_fini(&o->sources);
    string_list_fini(&o->types);
    string_list_fini(&o->workspaces);
    where_fini(&o->where);
}

struct endpoint_index *endpoint_index_new(void)
{
    return gr_alloc(sizeof(struct endpoint_index));
}

/* ---- one block for a subscription ---- */

static bool is_literal(const struct string_list *globs)
{
    for (size_t i = 0; i < globs->count; i++)
        if (strchr(globs->items[i], '*'))
            return false;
    return globs->count > 0;
}

static size_t member_count(const struct own_subscription *o)
{
    return is_literal(&o->workspaces) ? o->workspaces.count : 1;
}

static size_t text_bytes(const struct string_list *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->count; i++)
        n += strlen(l->items[i]) + 1;
    return n;
}

/* Copies the list to these places, which move on, and frees the original. */
static void pack(struct string_list *to, struct string_list *from,
                 char ***pointers, char **texts)
{
    *to = (struct string_list){*pointers, from->count};
    for (size_t i = 0; i < from->count; i++) {
        size_t n = strlen(from->items[i]) + 1;

        memcpy(*texts, from->items[i], n);
        *(*pointers)++ = *texts;
        *texts += n;
    }
    string_list_fini(from);
}

static struct entry *entry_new(size_t number, struct own_subscription *o)
{
    size_t members = member_count(o);
    size_t pointers = o->sources.count + o->types.count + o->workspaces.count;
    size_t front = sizeof(struct entry) + members * sizeof(struct member);
    struct entry *e = gr_alloc(front + pointers * sizeof(char *) +
                               text_bytes(&o->sources) + text_bytes(&o->types) +
                               text_bytes(&o->workspaces));
    char **at = (char **)(void *)((char *)e + front);
    char *text = (char *)(at + pointers);

    e->number = number;
    e->is.where = o->where;
    o->where = (struct where){0};
    pack(&e->is.sources, &o->sources, &at, &text);
    pack(&e->is.types, &o->types, &at, &text);
    pack(&e->is.workspaces, &o->workspaces, &at, &text);
    for (size_t i = 0; i < members; i++)
        e->members[i] = (struct member){
            .entry = e,
            .workspace = is_literal(&e->is.workspaces)
                             ? e->is.workspaces.items[i]
                             : NULL};
    return e;
}

/* ---- groups ---- */

static struct member *group_of(const struct endpoint_index *all,
                               const char *workspace)
{
    struct member *head;

    for (size_t at = 0; (head = lookup_get(&all->groups, lookup_text(workspace),
                                           &at)) != NULL;)
        if (strcmp(head->workspace, workspace) == 0)
            return head;
    return NULL;
}

static void join(struct endpoint_index *all, struct member *m)
{
    struct member *head = m->workspace ? group_of(all, m->workspace)
                                       : all->always;

    if (head) {
        m->next = head->next;
        m->before = head;
        head->next->before = m;
        head->next = m;
        return;
    }
    m->next = m->before = m;
    if (m->workspace)
        lookup_add(&all->groups, lookup_text(m->workspace), m);
    else
        all->always = m;
}

static void leave(struct endpoint_index *all, struct member *m)
{
    struct member *next = m->next == m ? NULL : m->next;

    m->next->before = m->before;
    m->before->next = m->next;
    if (!m->workspace) {
        if (all->always == m)
            all->always = next;
    } else if (group_of(all, m->workspace) == m) {
        lookup_remove(&all->groups, lookup_text(m->workspace), m);
        if (next)
            lookup_add(&all->groups, lookup_text(next->workspace), next);
    }
}

/* ---- changes ---- */

static void make_space(struct endpoint_index *all, size_t number)
{
    size_t capacity = all->capacity ? all->capacity : 16;

    if (number < all->capacity)
        return;
    while (capacity <= number)
        capacity *= 2;
    all->entries = gr_realloc(all->entries, capacity * sizeof *all->entries);
    memset(all->entries + all->capacity, 0,
           (capacity - all->capacity) * sizeof *all->entries);
    all->capacity = capacity;
}

void endpoint_index_put(struct endpoint_index *all, size_t number,
                        struct own_subscription *taken)
{
    struct entry *e = entry_new(number, taken);
    size_t n = member_count(&e->is);

    endpoint_index_drop(all, number);
    make_space(all, number);
    all->entries[number] = e;
    for (size_t i = 0; i < n; i++)
        join(all, &e->members[i]);
}

void endpoint_index_drop(struct endpoint_index *all, size_t number)
{
    struct entry *e = number < all->capacity ? all->entries[number] : NULL;
    size_t n = e ? member_count(&e->is) : 0;

    for (size_t i = 0; i < n; i++)
        leave(all, &e->members[i]);
    if (!e)
        return;
    where_fini(&e->is.where);
    free(e);
    all->entries[number] = NULL;
}

void endpoint_index_free(struct endpoint_index *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < all->capacity; i++)
        if (all->entries[i]) {
            where_fini(&all->entries[i]->is.where);
            free(all->entries[i]);
        }
    lookup_fini(&all->groups);
    free(all->entries);
    free(all->subscribed);
    free(all);
}

/* ---- asking ---- */

const struct own_subscription *
endpoint_index_get(const struct endpoint_index *all, size_t number)
{
    const struct entry *e = number < all->capacity ? all->entries[number]
                                                   : NULL;

    return e ? &e->is : NULL;
}

/* The workspace of a group that was found by it matches, so it is not compared again. */
static void judge(struct endpoint_index *all, const struct entry *e,
                  bool by_workspace, struct subject *s)
{
    static const struct string_list any = {0};
    const struct subscription w = {&e->is.sources, &e->is.types,
                                   by_workspace ? &any : &e->is.workspaces,
                                   &e->is.where};

    if (!subscription_takes(&w, s, NULL))
        return;
    if (all->subscribed_count == all->subscribed_capacity) {
        all->subscribed_capacity = all->subscribed_capacity
                                       ? 2 * all->subscribed_capacity
                                       : 16;
        all->subscribed = gr_realloc(all->subscribed,
                                     all->subscribed_capacity *
                                         sizeof *all->subscribed);
    }
    all->subscribed[all->subscribed_count++] = e->number;
}

static void judge_group(struct endpoint_index *all, const struct member *head,
                        struct subject *s)
{
    const struct member *m = head;

    if (!head)
        return;
    do {
        judge(all, m->entry, m->workspace != NULL, s);
        m = m->next;
    } while (m != head);
}

static int compare_numbers(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

const size_t *endpoint_index_ask(struct endpoint_index *all, struct subject *s,
                                 size_t *count)
{
    size_t n = 0;

    all->subscribed_count = 0;
    judge_group(all, all->always, s);
    judge_group(all, group_of(all, s->workspace), s);
    if (all->subscribed_count > 1)
        qsort(all->subscribed, all->subscribed_count, sizeof *all->subscribed,
              compare_numbers);
    /* A list may name a workspace twice. */
    for (size_t i = 0; i < all->subscribed_count; i++)
        if (!n || all->subscribed[n - 1] != all->subscribed[i])
            all->subscribed[n++] = all->subscribed[i];
    *count = n;
    return all->subscribed;
}
