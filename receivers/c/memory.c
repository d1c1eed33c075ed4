/* memory.c: the store in the memory of one process. */
#include "internal.h"
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* An id: claimed while it is processed, done afterwards. */
struct known {
    bool claimed;
    char id[];
};

struct number {
    int64_t n, since_s;
    char *id;
};

/* Sorted; numbers arrive almost in order, and are dropped almost in order. */
struct numbers {
    struct number *items;
    size_t begin, end, capacity;
};

/* One numbering of a workspace. */
struct space {
    struct space *next;
    struct workspace *workspace;
    bool has_floor, announced;
    int64_t floor, highest;
    struct numbers arrived, missing;
    char series[];
};

struct workspace {
    struct workspace *next;
    struct space *spaces;
    char name[];
};

/* What is dropped after keep_s: an id, or a number. */
struct dated {
    struct dated *next;
    int64_t at_s;
    struct known *known;
    struct space *space;
    int64_t n;
};

struct store {
    struct grapnel_store base;
    pthread_mutex_t mutex;
    int64_t keep_s;
    size_t events_max;
    void *ids; /* a tree (tsearch) of the ids of struct known */
    struct dated *first, **last; /* in order of arrival */
    size_t entries;
    void *names; /* a tree of the names of struct workspace */
    struct workspace *workspaces;
    size_t spaces;
};

/* The trees hold the strings, so that a search needs no memory. */
static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct known *known_of(char *id)
{
    return (struct known *)(id - offsetof(struct known, id));
}

static struct workspace *workspace_of(char *name)
{
    return (struct workspace *)(name - offsetof(struct workspace, name));
}

/* ---- Sorted numbers ---- */

/* The first one that is n or higher. */
static size_t lower_bound(const struct numbers *s, int64_t n)
{
    size_t low = s->begin, high = s->end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (s->items[middle].n < n)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has(const struct numbers *s, int64_t n)
{
    size_t at = lower_bound(s, n);

    return at < s->end && s->items[at].n == n;
}

/* Space for one more. */
static bool reserve(struct numbers *s)
{
    size_t capacity;
    struct number *items;

    if (s->end < s->capacity)
        return true;
    if (s->begin > s->capacity / 2) {
        memmove(s->items, s->items + s->begin,
                (s->end - s->begin) * sizeof *s->items);
        s->end -= s->begin;
        s->begin = 0;
        return true;
    }
    capacity = s->capacity ? s->capacity * 2 : 8;
    if (capacity > SIZE_MAX / sizeof *items)
        return false;
    items = realloc(s->items, capacity * sizeof *items);
    if (!items)
        return false;
    s->items = items;
    s->capacity = capacity;
    return true;
}

/* After reserve(). n is not there yet. */
static void insert(struct numbers *s, struct number number)
{
    size_t at = lower_bound(s, number.n);

    memmove(s->items + at + 1, s->items + at, (s->end - at) * sizeof *s->items);
    s->items[at] = number;
    s->end++;
}

static void drop_number(struct numbers *s, int64_t n)
{
    size_t at = lower_bound(s, n);

    if (at == s->end || s->items[at].n != n)
        return;
    free(s->items[at].id);
    if (at == s->begin) {
        s->begin++;
        return;
    }
    memmove(s->items + at, s->items + at + 1,
            (s->end - at - 1) * sizeof *s->items);
    s->end--;
}

static void free_numbers(struct numbers *s)
{
    for (size_t i = s->begin; i < s->end; i++)
        free(s->items[i].id);
    free(s->items);
}

/* ---- Series ---- */

static struct workspace *find_workspace(const struct store *s, const char *name)
{
    char **found = tfind(name, &s->names, by_text);

    return found ? workspace_of(*found) : NULL;
}

static struct space *find_space(const struct workspace *w, const char *series)
{
    struct space *space = w ? w->spaces : NULL;

    while (space && strcmp(space->series, series) != 0)
        space = space->next;
    return space;
}

/* Forgets numberings without a number, and their workspaces: there are too many. */
static void drop_empty_spaces(struct store *s)
{
    struct workspace **w = &s->workspaces;

    while (*w) {
        struct workspace *gone = *w;
        struct space **p = &gone->spaces;

        while (*p) {
            struct space *space = *p;

            if (space->arrived.begin < space->arrived.end) {
                p = &space->next;
                continue;
            }
            *p = space->next;
            free_numbers(&space->arrived);
            free_numbers(&space->missing);
            free(space);
            s->spaces--;
        }
        if (gone->spaces) {
            w = &gone->next;
            continue;
        }
        *w = gone->next;
        tdelete(gone->name, &s->names, by_text);
        free(gone);
    }
}

static struct workspace *make_workspace(struct store *s, const char *name)
{
    size_t n = strlen(name) + 1;
    struct workspace *w = find_workspace(s, name);

    if (w)
        return w;
    w = malloc(sizeof *w + n);
    if (!w)
        return NULL;
    memcpy(w->name, name, n);
    w->spaces = NULL;
    if (!tsearch(w->name, &s->names, by_text)) {
        free(w);
        return NULL;
    }
    w->next = s->workspaces;
    s->workspaces = w;
    return w;
}

/* NULL: no memory. */
static struct space *make_space(struct store *s, const struct grapnel_event *e)
{
    struct space *space = find_space(find_workspace(s, e->workspace),
                                     e->series);
    size_t n = strlen(e->series) + 1;
    struct workspace *w;

    if (space)
        return space;
    if (s->spaces >= s->events_max)
        drop_empty_spaces(s);
    w = make_workspace(s, e->workspace);
    space = w ? calloc(1, sizeof *space + n) : NULL;
    if (!space)
        return NULL;
    memcpy(space->series, e->series, n);
    space->workspace = w;
    space->next = w->spaces;
    w->spaces = space;
    s->spaces++;
    return space;
}

/* ---- What is old ---- */

static void drop_entry(struct store *s)
{
    struct dated *e = s->first;
    struct space *space = e->space;

    s->first = e->next;
    if (!s->first)
        s->last = &s->first;
    s->entries--;
    if (e->known) {
        tdelete(e->known->id, &s->ids, by_text);
        free(e->known);
    }
    if (space) {
        drop_number(&space->arrived, e->n);
        if (space->has_floor && e->n > space->floor) {
            space->floor = e->n;
            while (space->missing.begin < space->missing.end &&
                   space->missing.items[space->missing.begin].n <= e->n)
                space->missing.begin++;
        }
    }
    free(e);
}

/* An event has up to two entries. */
static void drop_old(struct store *s, int64_t before_s)
{
    while (s->first &&
           (s->first->at_s < before_s || s->entries / 2 > s->events_max))
        drop_entry(s);
}

static void append(struct store *s, struct dated *e)
{
    e->next = NULL;
    *s->last = e;
    s->last = &e->next;
    s->entries++;
}

/* ---- The three steps ---- */

static void read_facts(const struct store *s, const struct grapnel_event *e,
                       struct grapnel_facts *f)
{
    const struct workspace *w = find_workspace(s, e->workspace);
    const struct space *own = find_space(w, e->series);

    *f = (struct grapnel_facts){.has_floor = false};
    if (own) {
        size_t at = lower_bound(&own->arrived, e->sequence);

        f->has_floor = own->has_floor;
        f->floor = own->floor;
        f->announced = own->announced;
        f->highest = own->highest;
        f->has_previous = has(&own->arrived, e->previous);
        f->named = has(&own->missing, e->sequence);
        if (has(&own->arrived, e->sequence))
            grapnel_copy(f->holder, sizeof f->holder,
                         own->arrived.items[at].id);
        at = lower_bound(&own->arrived, e->previous);
        if (at > own->arrived.begin)
            f->below = own->arrived.items[at - 1].n;
    }
    for (const struct space *other = w ? w->spaces : NULL; other;
         other = other->next) {
        if (other != own) {
            f->in_other |= has(&other->arrived, e->previous);
            f->earlier |= other->has_floor;
        }
    }
}

static struct known *new_known(const char *id)
{
    size_t n = strlen(id) + 1;
    struct known *k = malloc(sizeof *k + n);

    if (k) {
        k->claimed = true;
        memcpy(k->id, id, n);
    }
    return k;
}

static enum grapnel_status claim(struct grapnel_store *store,
                                 const struct grapnel_arrival *a,
                                 const char *token, bool *first,
                                 struct grapnel_facts *facts,
                                 struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    struct known *mine = new_known(a->event->id);
    enum grapnel_status status = GRAPNEL_DONE;
    char **found;

    (void)token;
    if (!mine)
        return grapnel_say_memory(error);
    pthread_mutex_lock(&s->mutex);
    found = tsearch(mine->id, &s->ids, by_text);
    *first = found && *found == mine->id;
    if (!found)
        status = grapnel_say_memory(error);
    else if (!*first && known_of(*found)->claimed)
        status = grapnel_say(error, GRAPNEL_BUSY,
                             "the event is being processed");
    else if (a->numbered)
        read_facts(s, a->event, facts);
    pthread_mutex_unlock(&s->mutex);
    if (!*first)
        free(mine);
    return status;
}

static struct known *find_known(const struct store *s, const char *id)
{
    char **found = tfind(id, &s->ids, by_text);

    return found ? known_of(*found) : NULL;
}

static void drop_claim(struct store *s, struct known *k)
{
    if (k && k->claimed) {
        tdelete(k->id, &s->ids, by_text);
        free(k);
    }
}

static void release(struct grapnel_store *store,
                    const struct grapnel_arrival *a, const char *token)
{
    struct store *s = (struct store *)store;

    (void)token;
    pthread_mutex_lock(&s->mutex);
    drop_claim(s, find_known(s, a->event->id));
    pthread_mutex_unlock(&s->mutex);
}

/* What finish() needs, so that it cannot fail half-way. */
struct change {
    struct known *known;
    struct space *space;
    struct dated *id_entry, *number_entry;
    char *id;
};

static bool prepare(struct store *s, const struct grapnel_event *e,
                    bool numbered, struct change *c)
{
    c->id_entry = calloc(1, sizeof *c->id_entry);
    if (!c->id_entry || !numbered)
        return c->id_entry;
    c->number_entry = calloc(1, sizeof *c->number_entry);
    c->id = strdup(e->id);
    c->space = make_space(s, e);
    return c->number_entry && c->id && c->space &&
           reserve(&c->space->arrived) && reserve(&c->space->missing);
}

static void set_number(struct store *s, const struct grapnel_arrival *a,
                       const struct grapnel_state *state, struct change *c)
{
    const struct grapnel_event *e = a->event;
    struct space *space = c->space;

    if (!space->has_floor && state->has_floor) {
        space->has_floor = true;
        space->floor = state->floor;
    }
    space->announced |= state->announced;
    if (!has(&space->arrived, e->sequence)) {
        insert(&space->arrived, (struct number){e->sequence, 0, c->id});
        c->id = NULL;
        *c->number_entry = (struct dated){NULL, a->now_s, NULL, space,
                                          e->sequence};
        append(s, c->number_entry);
        c->number_entry = NULL;
    }
    drop_number(&space->missing, e->sequence);
    if (e->sequence > space->highest)
        space->highest = e->sequence;
    if (space->has_floor && e->previous > space->floor &&
        !has(&space->arrived, e->previous) &&
        !has(&space->missing, e->previous))
        insert(&space->missing, (struct number){e->previous, a->now_s, NULL});
}

static enum grapnel_status finish(struct grapnel_store *store,
                                  const struct grapnel_arrival *a,
                                  const struct grapnel_state *state,
                                  struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    struct change c = {.known = NULL};
    enum grapnel_status status = GRAPNEL_DONE;

    pthread_mutex_lock(&s->mutex);
    c.known = find_known(s, a->event->id);
    if (!prepare(s, a->event, state, &c)) {
        drop_claim(s, c.known);
        status = grapnel_say_memory(error);
    } else {
        if (c.known && c.known->claimed) {
            c.known->claimed = false;
            *c.id_entry = (struct dated){NULL, a->now_s, c.known, NULL, 0};
            append(s, c.id_entry);
            c.id_entry = NULL;
        }
        if (state)
            set_number(s, a, state, &c);
        drop_old(s, a->now_s - s->keep_s);
    }
    pthread_mutex_unlock(&s->mutex);
    free(c.id_entry);
    free(c.number_entry);
    free(c.id);
    return status;
}

/* ---- The methods ---- */

static enum grapnel_status process(struct grapnel_store *store,
                                   const struct grapnel_arrival *a,
                                   grapnel_handler handle, void *arg,
                                   struct grapnel_check *check,
                                   struct grapnel_error *error)
{
    static const struct grapnel_claims claims = {claim, release, finish};

    return grapnel_process_claimed(store, &claims, a, handle, arg, check,
                                   error);
}

static bool in_another(const struct space *own, int64_t n)
{
    for (const struct space *o = own->workspace->spaces; o; o = o->next) {
        if (o != own && has(&o->arrived, n))
            return true;
    }
    return false;
}

static bool list_missing(const struct space *space, int64_t before_s,
                         struct grapnel_missing_list *list)
{
    const struct numbers *m = &space->missing;

    for (size_t i = m->begin; i < m->end; i++) {
        if (m->items[i].since_s <= before_s &&
            !grapnel_missing_add(list, space->series, space->workspace->name,
                                 m->items[i].n, m->items[i].since_s,
                                 in_another(space, m->items[i].n)))
            return false;
    }
    return true;
}

static enum grapnel_status missing(struct grapnel_store *store,
                                   int64_t before_s,
                                   struct grapnel_missing_list *list,
                                   struct grapnel_error *error)
{
    struct store *s = (struct store *)store;
    bool done = true;

    pthread_mutex_lock(&s->mutex);
    for (struct workspace *w = s->workspaces; w; w = w->next) {
        for (struct space *space = w->spaces; done && space;
             space = space->next)
            done = list_missing(space, before_s, list);
    }
    pthread_mutex_unlock(&s->mutex);
    grapnel_missing_sort(list);
    return done ? GRAPNEL_DONE : grapnel_say_memory(error);
}

static enum grapnel_status forget(struct grapnel_store *store, int64_t before_s,
                                  struct grapnel_error *error)
{
    struct store *s = (struct store *)store;

    (void)error;
    pthread_mutex_lock(&s->mutex);
    drop_old(s, before_s);
    pthread_mutex_unlock(&s->mutex);
    return GRAPNEL_DONE;
}

static void free_store(struct grapnel_store *store)
{
    struct store *s = (struct store *)store;

    while (s->first)
        drop_entry(s);
    drop_empty_spaces(s);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static const struct grapnel_store_methods methods = {process, NULL, missing,
                                                     forget,  NULL, free_store};

struct grapnel_store *grapnel_memory_store_new(int64_t keep_s,
                                               size_t events_max)
{
    struct store *s = calloc(1, sizeof *s);

    if (!s || pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->base.methods = &methods;
    s->keep_s = keep_s > 0 ? keep_s : GRAPNEL_KEEP_S;
    s->events_max = events_max ? events_max : 1000000;
    s->last = &s->first;
    return &s->base;
}
