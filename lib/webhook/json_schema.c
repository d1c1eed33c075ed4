/* json_schema: makes a schema from its text, as a table of nodes, and checks values against it. */
#include "json_schema.h"
#include "alloc.h"
#include "json_text.h"
#include "pattern.h"
#include "sha256.h"
#include "siphash.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES_MAX = 4096,
    NONE = -1,
    ALLOWED = -2, /* a property that a pattern of patternProperties matches */
    WORD_SHOWN_BYTES = 60,
    VISITS_PER_STEP =
        16 /* of states of a pattern, so that steps take the same time */
};

enum { NULLS = 1, BOOLEANS = 2, NUMBERS = 4, INTEGERS = 8, STRINGS = 16 };
enum { ARRAYS = 32, OBJECTS = 64 };
static const struct {
    const char *name;
    unsigned bit;
} type_names[] = {{"null", NULLS},     {"boolean", BOOLEANS},
                  {"number", NUMBERS}, {"integer", INTEGERS},
                  {"string", STRINGS}, {"array", ARRAYS},
                  {"object", OBJECTS}};

/* Limits: each is checked only if its bit of `limits` is set. */
enum limit {
    MINIMUM,
    MAXIMUM,
    EXCLUSIVE_MINIMUM,
    EXCLUSIVE_MAXIMUM,
    MULTIPLE_OF,
    MIN_LENGTH,
    MAX_LENGTH,
    MIN_ITEMS,
    MAX_ITEMS,
    MIN_PROPERTIES,
    MAX_PROPERTIES,
    LIMITS
};

/* Schemas that are applied to the same value. */
struct branches {
    int *nodes;
    size_t count;
};
enum combination { ALL_OF, ANY_OF, ONE_OF, COMBINATIONS };
static const char *const combination_names[] = {"allOf", "anyOf", "oneOf"};

struct property {
    const char *name; /* borrowed from the document */
    size_t bytes;
    int node;
};

/* A schema for the properties whose name a pattern matches. */
struct patterned {
    struct pattern *pattern; /* owned */
    int node;
};

/* One schema. Numbers of nodes; NONE: it has no such keyword. */
struct node {
    const json_t *of;
    bool never;     /* the schema `false` */
    unsigned types; /* 0: any */
    unsigned limits;
    double limit[LIMITS];
    const json_t *values; /* of enum */
    const json_t *constant;
    int64_t values_cost, constant_cost;
    const json_t *required, *dependent; /* names; names by name */
    struct property *properties;        /* sorted by name */
    size_t property_count;
    struct patterned *patterned;
    size_t patterned_count;
    struct pattern *pattern; /* owned */
    int additional, names, items, contains;
    struct branches first_items;
    int64_t min_contains, max_contains; /* max -1: no limit */
    bool unique;
    struct branches combined[COMBINATIONS];
    int negated, condition, then, otherwise, ref;
    enum { NEW, ENTERED, LEFT } visit; /* to find cycles */
};

struct json_schema {
    json_t *document;
    struct node *nodes;
    size_t count;
    size_t states; /* of all patterns */
};

void json_schema_free(struct json_schema *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->nodes[i].patterned_count; k++)
            pattern_free(s->nodes[i].patterned[k].pattern);
        free(s->nodes[i].patterned);
        pattern_free(s->nodes[i].pattern);
        free(s->nodes[i].properties);
        free(s->nodes[i].first_items.nodes);
        for (int k = 0; k < COMBINATIONS; k++)
            free(s->nodes[i].combined[k].nodes);
    }
    free(s->nodes);
    json_decref(s->document);
    free(s);
}

/* ---- places ---- */

/* A step into a value or a schema; the chain up to the top is its path. */
struct place {
    const struct place *in;
    const char *name; /* NULL: element `index` */
    size_t index;
};

static void put_path(const struct place *at, struct buf *out)
{
    if (!at->in)
        return;
    put_path(at->in, out);
    buf_puts(out, "/");
    if (!at->name)
        buf_printf(out, "%zu", at->index);
    for (const char *c = at->name; c && *c; c++)
        if (*c == '~' || *c == '/')
            buf_puts(out, *c == '~' ? "~0" : "~1");
        else
            buf_put(out, c, 1);
}

/* The end of a long path is cut off, at the beginning of a character. */
static void write_path(const struct place *at,
                       char path[JSON_SCHEMA_PATH_BYTES])
{
    struct buf text;
    size_t n;

    buf_init(&text, 1024 * 1024);
    put_path(at, &text);
    n = text.len < JSON_SCHEMA_PATH_BYTES ? text.len
                                          : JSON_SCHEMA_PATH_BYTES - 1;
    while (n < text.len && n && ((unsigned char)text.data[n] & 0xc0) == 0x80)
        n--;
    if (n)
        memcpy(path, text.data, n);
    path[n] = 0;
    buf_fini(&text);
}

GR_PRINTF(4, 5)
static void explain(struct json_schema_wrong *wrong, const struct place *at,
                    const char *rule, const char *format, ...)
{
    va_list args;

    write_path(at, wrong->path);
    wrong->rule = rule;
    va_start(args, format);
    vsnprintf(wrong->why, sizeof wrong->why, format, args);
    va_end(args);
}

/* ==== making it ==== */

struct making {
    struct json_schema *s;
    struct json_schema_wrong *wrong;
    bool refused;
    bool siblings; /* keywords beside `$ref` count */
    int depth;
    struct unresolved { /* schemas with `$ref` */
        int node;
        const json_t *to;
        char path[JSON_SCHEMA_PATH_BYTES];
    } * refs;
    size_t ref_count;
};

GR_PRINTF(3, 4)
static void refuse(struct making *m, const struct place *at, const char *format,
                   ...)
{
    va_list args;

    if (m->refused)
        return;
    m->refused = true;
    write_path(at, m->wrong->path);
    m->wrong->rule = "schema";
    va_start(args, format);
    vsnprintf(m->wrong->why, sizeof m->wrong->why, format, args);
    va_end(args);
}

static int make_node(struct making *m, const json_t *of,
                     const struct place *at);

/* How many values it has, with those inside. */
static int64_t cost_of(const json_t *value)
{
    int64_t cost = 1;
    const char *name;
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)value, i, v) cost += cost_of(v);
    json_object_foreach((json_t *)(uintptr_t)value, name, v) cost += cost_of(v);
    return cost;
}

static void take_type(struct making *m, struct node *n, const json_t *v,
                      const struct place *at)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1;

    if (!count)
        refuse(m, at, "must name a type");
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(
            json_is_array(v) ? json_array_get(v, i) : v);
        unsigned bit = 0;

        for (size_t k = 0; name && k < COUNT_OF(type_names); k++)
            if (strcmp(type_names[k].name, name) == 0)
                bit = type_names[k].bit;
        if (!bit)
            refuse(m, at,
                   "must be null, boolean, number, integer, string, array or "
                   "object, or a list of these");
        n->types |= bit == NUMBERS ? NUMBERS | INTEGERS : bit;
    }
}

static bool are_names(const json_t *list)
{
    if (!json_is_array(list))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return true;
}

static int by_name(const void *left, const void *right)
{
    const struct property *a = left, *b = right;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = memcmp(a->name, b->name, n);

    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void take_properties(struct making *m, int self, const json_t *v,
                            const struct place *at)
{
    struct property *all;
    size_t count = json_object_size(v), i = 0;
    const char *name;
    json_t *of;
    size_t bytes;

    if (!json_is_object(v)) {
        refuse(m, at, "must be an object with a schema for each name");
        return;
    }
    all = gr_alloc((count + 1) * sizeof *all);
    json_object_keylen_foreach((json_t *)(uintptr_t)v, name, bytes, of)
    {
        struct place in = {at, name, 0};

        all[i++] = (struct property){name, bytes, make_node(m, of, &in)};
    }
    qsort(all, count, sizeof *all, by_name);
    m->s->nodes[self].properties = all;
    m->s->nodes[self].property_count = count;
}

/* NULL: it is refused. */
static struct pattern *make_pattern(struct making *m, struct bytes text,
                                    const struct place *at)
{
    struct pattern_wrong wrong;
    struct pattern *p = pattern_new(text, PATTERN_STATES_MAX - m->s->states,
                                    &wrong);

    if (p)
        m->s->states += pattern_states(p);
    else
        refuse(m, at, "character %zu: %s", wrong.at, wrong.why);
    return p;
}

static void take_patterned(struct making *m, int self, const json_t *v,
                           const struct place *at)
{
    struct patterned *all;
    const char *name;
    json_t *of;
    size_t bytes, count = 0;

    if (!json_is_object(v)) {
        refuse(m, at, "must be an object with a schema for each pattern");
        return;
    }
    all = gr_alloc((json_object_size(v) + 1) * sizeof *all);
    json_object_keylen_foreach((json_t *)(uintptr_t)v, name, bytes, of)
    {
        struct place in = {at, name, 0};

        all[count].pattern = make_pattern(m, (struct bytes){name, bytes}, &in);
        all[count++].node = make_node(m, of, &in);
    }
    m->s->nodes[self].patterned = all;
    m->s->nodes[self].patterned_count = count;
}

static struct branches make_branches(struct making *m, const json_t *v,
                                     const struct place *at)
{
    struct branches b = {0};

    if (!json_array_size(v)) {
        refuse(m, at, "must be a list of schemas with at least one");
        return b;
    }
    b.nodes = gr_alloc(json_array_size(v) * sizeof *b.nodes);
    for (; b.count < json_array_size(v); b.count++) {
        struct place in = {at, NULL, b.count};

        b.nodes[b.count] = make_node(m, json_array_get(v, b.count), &in);
    }
    return b;
}

/* The value in the document to which "#/a/b" points; NULL: there is none. */
static const json_t *find_target(const json_t *document, const char *pointer)
{
    const json_t *at = document;
    char *text = gr_strdup(pointer), *part = text, *end;

    for (char *from = text, *to = text;; from++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;

        if (low >= 0 && (high || low)) { /* %20 */
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else if (!(*to++ = *from)) {
            break;
        }
    }
    while (at && *part == '/') {
        char *to = ++part;
        size_t n = strcspn(part, "/");

        end = part + n;
        for (char *from = part; from < end; from++) {
            char c = *from;

            if (c == '~' && from + 1 < end && from[1] < '2')
                c = *++from == '0' ? '~' : '/';
            *to++ = c;
        }
        n = (size_t)(to - part);
        if (json_is_object(at)) {
            at = json_object_getn(at, part, n);
        } else {
            bool digits = n && n < 7 && strspn(part, "0123456789") >= n &&
                          (n == 1 || *part != '0');

            at = digits ? json_array_get(at, strtoul(part, NULL, 10)) : NULL;
        }
        part = end;
    }
    if (*part)
        at = NULL;
    free(text);
    return at;
}

/* It is resolved when all schemas of the document are known. */
static void note_ref(struct making *m, int self, const json_t *v,
                     const struct place *at)
{
    const char *text = json_string_value(v);
    const json_t *to = NULL;

    if (!text || *text != '#') {
        refuse(m, at, "must point into this document, such as #/$defs/name");
        return;
    }
    to = find_target(m->s->document, text + 1);
    if (!to) {
        refuse(m, at, "there is no %.*s in this document", WORD_SHOWN_BYTES,
               text);
        return;
    }
    if (m->ref_count % 16 == 0)
        m->refs = gr_realloc(m->refs, (m->ref_count + 16) * sizeof *m->refs);
    m->refs[m->ref_count] = (struct unresolved){.node = self, .to = to};
    write_path(at, m->refs[m->ref_count++].path);
}

static void take_limit(struct making *m, struct node *n, enum limit which,
                       const json_t *v, const struct place *at)
{
    double limit = json_number_value(v);

    if (!json_is_number(v))
        refuse(m, at, "must be a number");
    else if (which == MULTIPLE_OF && !(limit > 0))
        refuse(m, at, "must be above 0");
    else if (which >= MIN_LENGTH &&
             !(limit >= 0 && limit <= 1e15 && limit == floor(limit)))
        refuse(m, at, "must be a whole number, 0 or more");
    n->limits |= 1u << which;
    n->limit[which] = limit;
}

static const struct {
    const char *name;
    enum limit limit;
} limit_names[] = {
    {"minimum", MINIMUM},
    {"maximum", MAXIMUM},
    {"exclusiveMinimum", EXCLUSIVE_MINIMUM},
    {"exclusiveMaximum", EXCLUSIVE_MAXIMUM},
    {"multipleOf", MULTIPLE_OF},
    {"minLength", MIN_LENGTH},
    {"maxLength", MAX_LENGTH},
    {"minItems", MIN_ITEMS},
    {"maxItems", MAX_ITEMS},
    {"minProperties", MIN_PROPERTIES},
    {"maxProperties", MAX_PROPERTIES},
};

/* Keywords that say nothing about a value. `format` is one by default in 2020-12. */
static bool is_annotation(const char *name)
{
    static const char *const names[] = {
        "title",  "description", "default",  "examples", "$comment",
        "format", "deprecated",  "readOnly", "writeOnly"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Keywords whose value is one schema. */
static int *single(struct node *n, const char *name)
{
    return strcmp(name, "additionalProperties") == 0 ? &n->additional
           : strcmp(name, "propertyNames") == 0      ? &n->names
           : strcmp(name, "items") == 0              ? &n->items
           : strcmp(name, "contains") == 0           ? &n->contains
           : strcmp(name, "not") == 0                ? &n->negated
           : strcmp(name, "if") == 0                 ? &n->condition
           : strcmp(name, "then") == 0               ? &n->then
           : strcmp(name, "else") == 0               ? &n->otherwise
                                                     : NULL;
}

/* Definitions are checked here, so that a mistake in an unused one is found. */
static void take_definitions(struct making *m, const json_t *v,
                             const struct place *at)
{
    const char *name;
    json_t *of;

    if (!json_is_object(v))
        refuse(m, at, "must be an object with a schema for each name");
    json_object_foreach((json_t *)(uintptr_t)v, name, of)
    {
        struct place in = {at, name, 0};

        make_node(m, of, &in);
    }
}

static void take_dialect(struct making *m, const json_t *v,
                         const struct place *at)
{
    static const char newest[] = "https://json-schema.org/draft/2020-12/schema",
                      seventh[] = "http://json-schema.org/draft-07/schema";
    const char *text = json_string_value(v);
    size_t n = text ? strcspn(text, "#") : 0;

    if (n == sizeof seventh - 1 && strncmp(text, seventh, n) == 0)
        m->siblings = false;
    else if (n != sizeof newest - 1 || strncmp(text, newest, n) != 0)
        refuse(m, at, "must be %s or %s#", newest, seventh);
}

/* false: it is not a keyword that limits values to some. */
static bool take_values(struct making *m, struct node *n, const char *name,
                        const json_t *v, const struct place *at)
{
    if (strcmp(name, "enum") == 0) {
        if (!json_is_array(v))
            refuse(m, at, "must be a list of values");
        n->values = v;
        n->values_cost = cost_of(v);
    } else if (strcmp(name, "const") == 0) {
        n->constant = v;
        n->constant_cost = cost_of(v);
    } else if (strcmp(name, "required") == 0) {
        if (!are_names(v))
            refuse(m, at, "must be a list of names");
        n->required = v;
    } else if (strcmp(name, "dependentRequired") == 0) {
        const char *key;
        json_t *names;

        if (!json_is_object(v))
            refuse(m, at,
                   "must be an object with a list of names for each "
                   "name");
        json_object_foreach((json_t *)(uintptr_t)v, key,
                            names) if (!are_names(names))
            refuse(m, at, "must have lists of names");
        n->dependent = v;
    } else if (strcmp(name, "uniqueItems") == 0) {
        if (!json_is_boolean(v))
            refuse(m, at, "must be true or false");
        n->unique = json_is_true(v);
    } else if (strcmp(name, "minContains") == 0 ||
               strcmp(name, "maxContains") == 0) {
        double count = json_number_value(v);

        if (!json_is_number(v) || !(count >= 0 && count <= 1e15) ||
            count != floor(count))
            refuse(m, at, "must be a whole number, 0 or more");
        else if (*(name + 1) == 'i')
            n->min_contains = (int64_t)count;
        else
            n->max_contains = (int64_t)count;
    } else {
        return false;
    }
    return true;
}

/* The table of nodes may move while a schema inside is made, so a node is found by its number. */
static void take_keyword(struct making *m, int self, const char *name,
                         const json_t *v, const struct place *at)
{
    struct node *n = &m->s->nodes[self];

    if (is_annotation(name))
        return;
    for (size_t i = 0; i < COUNT_OF(limit_names); i++)
        if (strcmp(name, limit_names[i].name) == 0) {
            take_limit(m, n, limit_names[i].limit, v, at);
            return;
        }
    if (take_values(m, n, name, v, at))
        return;
    for (int k = 0; k < COMBINATIONS; k++)
        if (strcmp(name, combination_names[k]) == 0) {
            struct branches b = make_branches(m, v, at);

            m->s->nodes[self].combined[k] = b;
            return;
        }
    if (single(n, name)) {
        int node = NONE;

        if (strcmp(name, "items") == 0 && json_is_array(v))
            refuse(m, at,
                   "must be one schema; a list of schemas is prefixItems");
        else
            node = make_node(m, v, at);
        *single(&m->s->nodes[self], name) = node;
    } else if (strcmp(name, "type") == 0) {
        take_type(m, n, v, at);
    } else if (strcmp(name, "properties") == 0) {
        take_properties(m, self, v, at);
    } else if (strcmp(name, "patternProperties") == 0) {
        take_patterned(m, self, v, at);
    } else if (strcmp(name, "pattern") == 0) {
        if (json_is_string(v))
            n->pattern = make_pattern(
                m, (struct bytes){json_string_value(v), json_string_length(v)},
                at);
        else
            refuse(m, at, "must be a string");
    } else if (strcmp(name, "prefixItems") == 0) {
        struct branches b = make_branches(m, v, at);

        m->s->nodes[self].first_items = b;
    } else if (strcmp(name, "$ref") == 0) {
        note_ref(m, self, v, at);
    } else if (strcmp(name, "$defs") == 0 || strcmp(name, "definitions") == 0) {
        take_definitions(m, v, at);
    } else if (strcmp(name, "$schema") == 0 && !at->in->in) {
        ; /* take_dialect() was first */
    } else if (strcmp(name, "$id") == 0 && !at->in->in) {
        if (!json_is_string(v))
            refuse(m, at, "must be a string");
    } else {
        refuse(m, at,
               "is not a keyword that Grapnel checks; remove it, or put "
               "it into $comment");
    }
}

static int add_node(struct making *m, const json_t *of)
{
    struct json_schema *s = m->s;

    if (s->count % 32 == 0)
        s->nodes = gr_realloc(s->nodes, (s->count + 32) * sizeof *s->nodes);
    s->nodes[s->count] = (struct node){.of = of,
                                       .additional = NONE,
                                       .names = NONE,
                                       .items = NONE,
                                       .contains = NONE,
                                       .min_contains = 1,
                                       .max_contains = -1,
                                       .negated = NONE,
                                       .condition = NONE,
                                       .then = NONE,
                                       .otherwise = NONE,
                                       .ref = NONE};
    return (int)s->count++;
}

/* Whether what is beside its `$ref` says nothing about values. */
static bool stands_alone(const json_t *of)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)of, name, v)
    {
        if (!is_annotation(name) && strcmp(name, "$ref") != 0 &&
            strcmp(name, "$schema") != 0 && strcmp(name, "$id") != 0 &&
            strcmp(name, "$defs") != 0 && strcmp(name, "definitions") != 0)
            return false;
    }
    return true;
}

static int make_node(struct making *m, const json_t *of, const struct place *at)
{
    const char *name;
    json_t *v;
    int self;

    if (m->refused)
        return NONE;
    if (m->depth == JSON_SCHEMA_DEPTH_MAX || m->s->count == NODES_MAX) {
        refuse(m, at,
               "has too many schemas: at most %d in each "
               "other, and %d in all",
               JSON_SCHEMA_DEPTH_MAX, NODES_MAX);
        return NONE;
    }
    self = add_node(m, of);
    m->s->nodes[self].never = json_is_false(of);
    if (json_is_boolean(of))
        return self;
    if (!json_is_object(of)) {
        refuse(m, at,
               "must be a schema: an object, true or "
               "false");
        return self;
    }
    m->depth++;
    json_object_foreach((json_t *)(uintptr_t)of, name, v)
    {
        struct place in = {at, name, 0};

        take_keyword(m, self, name, v, &in);
    }
    m->depth--;
    if (!m->siblings && json_object_get(of, "$ref") && !stands_alone(of))
        refuse(m, at,
               "has keywords beside $ref, which draft-07 ignores; remove them, "
               "or set $schema to that of 2020-12");
    return self;
}

/* ---- references ---- */

static void resolve(struct making *m, const struct unresolved *ref)
{
    struct json_schema *s = m->s;
    int to = NONE;

    /* true and false are one value of jansson each, wherever they are. */
    for (size_t i = 0; i < s->count && to == NONE; i++)
        if (s->nodes[i].of == ref->to)
            to = (int)i;
    s->nodes[ref->node].ref = to;
    if (to != NONE || m->refused)
        return;
    m->refused = true;
    *m->wrong = (struct json_schema_wrong){.rule = "schema",
                                           .why = "does not point to a schema"};
    memcpy(m->wrong->path, ref->path, sizeof ref->path);
}

/* Whether a schema leads back to itself while the value stays the same: a check would not end. */
static bool is_endless(struct json_schema *s, int node)
{
    struct node *n = node == NONE ? NULL : &s->nodes[node];
    bool endless = false;

    if (!n || n->visit == LEFT)
        return false;
    if (n->visit == ENTERED)
        return true;
    n->visit = ENTERED;
    for (int k = 0; k < COMBINATIONS; k++)
        for (size_t i = 0; i < n->combined[k].count; i++)
            endless = endless || is_endless(s, n->combined[k].nodes[i]);
    endless = endless || is_endless(s, n->negated) ||
              is_endless(s, n->condition) || is_endless(s, n->then) ||
              is_endless(s, n->otherwise) || is_endless(s, n->ref);
    n->visit = LEFT;
    return endless;
}

struct json_schema *json_schema_new(struct bytes text,
                                    struct json_schema_wrong *wrong)
{
    static const struct place top = {0};
    struct json_schema *s = gr_alloc(sizeof *s);
    struct making m = {.s = s, .wrong = wrong, .siblings = true};
    json_error_t error;
    const json_t *dialect;

    *s = (struct json_schema){0};
    *wrong = (struct json_schema_wrong){.rule = ""};
    if (text.n > JSON_SCHEMA_MAX_BYTES) {
        refuse(&m, &top, "has more than %d bytes", JSON_SCHEMA_MAX_BYTES);
    } else {
        s->document = json_read(text,
                                JSON_REJECT_DUPLICATES |
                                    JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY,
                                &error);
        if (!s->document)
            refuse(&m, &top, "is not JSON: %.80s (at byte %d)", error.text,
                   error.position);
    }
    dialect = json_object_get(s->document, "$schema");
    if (dialect) {
        struct place at = {&top, "$schema", 0};

        take_dialect(&m, dialect, &at);
    }
    if (!m.refused)
        make_node(&m, s->document, &top);
    for (size_t i = 0; i < m.ref_count; i++)
        resolve(&m, &m.refs[i]);
    free(m.refs);
    for (size_t i = 0; i < s->count && !m.refused; i++)
        if (is_endless(s, (int)i))
            refuse(&m, &top,
                   "has a $ref that leads back to itself without "
                   "entering a property or an item");
    if (!m.refused)
        return s;
    json_schema_free(s);
    return NULL;
}

/* ==== checking ==== */

struct checking {
    const struct json_schema *s;
    struct json_schema_wrong *wrong;
    int64_t steps;
    int level; /* schemas that are being applied, each inside of the one before */
    int quiet; /* a branch that may fail */
};

static bool fits(struct checking *c, int node, const json_t *v,
                 const struct place *at);

/* false, so that callers can return it. */
#define fails(c, at, rule, ...) \
    ((c)->quiet ? false : (explain((c)->wrong, at, rule, __VA_ARGS__), false))

/* When the steps have run out, each further check fails, so that the whole check ends soon. */
static bool spend(struct checking *c, int64_t steps)
{
    c->steps -= steps;
    return c->steps >= 0;
}

static bool matches(struct checking *c, const struct pattern *p,
                    struct bytes text)
{
    int64_t visits = c->steps * VISITS_PER_STEP;
    enum pattern_found found = spend(c, 1) ? pattern_find(p, text, &visits)
                                           : PATTERN_TOO_LONG;

    if (found == PATTERN_TOO_LONG)
        c->steps = -1;
    else
        c->steps = visits / VISITS_PER_STEP - 1;
    return found == PATTERN_FOUND;
}

static bool is_whole(const json_t *v)
{
    double d = json_number_value(v);

    return isfinite(d) && d == floor(d);
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return OBJECTS;
    case JSON_ARRAY:
        return ARRAYS;
    case JSON_STRING:
        return STRINGS;
    case JSON_INTEGER:
    case JSON_REAL:
        return is_whole(v) ? NUMBERS | INTEGERS : NUMBERS;
    case JSON_TRUE:
    case JSON_FALSE:
        return BOOLEANS;
    default:
        return NULLS;
    }
}

static bool fits_type(struct checking *c, const struct node *n, const json_t *v,
                      const struct place *at)
{
    unsigned is = type_of(v);
    char names[100] = "";

    /* `number` sets both bits, `integer` only one. */
    if (!n->types || n->types & (is & INTEGERS ? INTEGERS : is))
        return true;
    for (size_t i = 0; i < COUNT_OF(type_names) && !c->quiet; i++)
        if (n->types & type_names[i].bit &&
            !(type_names[i].bit == INTEGERS && n->types & NUMBERS))
            snprintf(names + strlen(names), sizeof names - strlen(names),
                     "%s%s", *names ? " or " : "", type_names[i].name);
    return fails(c, at, "type", "must be %s", names);
}

static bool fits_values(struct checking *c, const struct node *n,
                        const json_t *v, const struct place *at)
{
    bool found = !n->values;

    if (!spend(c, n->values_cost + n->constant_cost))
        return false;
    for (size_t i = 0; i < json_array_size(n->values) && !found; i++)
        found = json_equal(v, json_array_get(n->values, i));
    if (!found)
        return fails(c, at, "enum", "must be one of the values of enum");
    if (n->constant && !json_equal(v, n->constant))
        return fails(c, at, "const", "must be the value of const");
    return true;
}

static bool has(const struct node *n, enum limit which)
{
    return n->limits & 1u << which;
}

static bool is_multiple(double v, double of)
{
    double times = v / of;

    return isfinite(times) &&
           fabs(times - round(times)) <= 1e-9 * fmax(1, fabs(times)) &&
           (fabs(times) < 1e15 || fmod(v, of) == 0);
}

static bool fits_number(struct checking *c, const struct node *n,
                        const json_t *value, const struct place *at)
{
    double v = json_number_value(value);

    if (has(n, MINIMUM) && v < n->limit[MINIMUM])
        return fails(c, at, "minimum", "must be at least %.15g",
                     n->limit[MINIMUM]);
    if (has(n, MAXIMUM) && v > n->limit[MAXIMUM])
        return fails(c, at, "maximum", "must be at most %.15g",
                     n->limit[MAXIMUM]);
    if (has(n, EXCLUSIVE_MINIMUM) && v <= n->limit[EXCLUSIVE_MINIMUM])
        return fails(c, at, "exclusiveMinimum", "must be above %.15g",
                     n->limit[EXCLUSIVE_MINIMUM]);
    if (has(n, EXCLUSIVE_MAXIMUM) && v >= n->limit[EXCLUSIVE_MAXIMUM])
        return fails(c, at, "exclusiveMaximum", "must be below %.15g",
                     n->limit[EXCLUSIVE_MAXIMUM]);
    if (has(n, MULTIPLE_OF) && !is_multiple(v, n->limit[MULTIPLE_OF]))
        return fails(c, at, "multipleOf", "must be a multiple of %.15g",
                     n->limit[MULTIPLE_OF]);
    return true;
}

static bool fits_string(struct checking *c, const struct node *n,
                        const json_t *v, const struct place *at)
{
    const char *text = json_string_value(v);
    size_t bytes = json_string_length(v);
    double length = 0;

    if (n->pattern && !matches(c, n->pattern, (struct bytes){text, bytes}))
        return fails(c, at, "pattern", "must match %.*s", WORD_SHOWN_BYTES,
                     json_string_value(json_object_get(n->of, "pattern")));
    if (!has(n, MIN_LENGTH) && !has(n, MAX_LENGTH))
        return true;
    if (!spend(c, (int64_t)(bytes / 16)))
        return false;
    for (size_t i = 0; i < bytes; i++) /* characters, not bytes */
        length += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (has(n, MIN_LENGTH) && length < n->limit[MIN_LENGTH])
        return fails(c, at, "minLength", "must have at least %.0f characters",
                     n->limit[MIN_LENGTH]);
    if (has(n, MAX_LENGTH) && length > n->limit[MAX_LENGTH])
        return fails(c, at, "maxLength", "must have at most %.0f characters",
                     n->limit[MAX_LENGTH]);
    return true;
}

/* ---- objects ---- */

static int property_of(const struct node *n, const char *name, size_t bytes)
{
    struct property key = {name, bytes, NONE};
    const struct property *found = n->property_count
                                       ? bsearch(&key, n->properties,
                                                 n->property_count, sizeof key,
                                                 by_name)
                                       : NULL;

    return found ? found->node : NONE;
}

static bool has_all(struct checking *c, const json_t *names, const json_t *v,
                    const struct place *at, const char *rule)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);

        if (!spend(c, 1))
            return false;
        if (!json_object_getn(v, json_string_value(name),
                              json_string_length(name)))
            return fails(c, at, rule, "lacks \"%.*s\"", WORD_SHOWN_BYTES,
                         json_string_value(name));
    }
    return true;
}

static bool fits_object(struct checking *c, const struct node *n,
                        const json_t *v, const struct place *at)
{
    double count = (double)json_object_size(v);
    const char *name;
    json_t *of;
    size_t bytes;

    if (has(n, MIN_PROPERTIES) && count < n->limit[MIN_PROPERTIES])
        return fails(c, at, "minProperties",
                     "must have at least %.0f properties",
                     n->limit[MIN_PROPERTIES]);
    if (has(n, MAX_PROPERTIES) && count > n->limit[MAX_PROPERTIES])
        return fails(c, at, "maxProperties",
                     "must have at most %.0f properties",
                     n->limit[MAX_PROPERTIES]);
    if (!has_all(c, n->required, v, at, "required"))
        return false;
    json_object_foreach(
        (json_t *)(uintptr_t)n->dependent, name,
        of) if (json_object_get(v, name) &&
                !has_all(c, of, v, at, "dependentRequired")) return false;
    if (!n->property_count && !n->patterned_count && n->additional == NONE &&
        n->names == NONE)
        return true;
    json_object_keylen_foreach((json_t *)(uintptr_t)v, name, bytes, of)
    {
        struct place in = {at, name, 0};
        int own = property_of(n, name, bytes);

        if (n->names != NONE) {
            json_t *text = json_stringn_nocheck(name, bytes);
            bool good;

            c->quiet++;
            good = fits(c, n->names, text, &in);
            c->quiet--;
            json_decref(text);
            if (!good)
                return fails(c, &in, "propertyNames",
                             "has a name that is not allowed");
        }
        for (size_t i = 0; i < n->patterned_count; i++) {
            if (!matches(c, n->patterned[i].pattern,
                         (struct bytes){name, bytes}))
                continue;
            if (!fits(c, n->patterned[i].node, of, &in))
                return false;
            if (own == NONE)
                own = ALLOWED;
        }
        if (own == NONE && n->additional != NONE &&
            c->s->nodes[n->additional].never)
            return fails(c, &in, "additionalProperties", "is not allowed");
        if (own == NONE)
            own = n->additional;
        if (own >= 0 && !fits(c, own, of, &in))
            return false;
    }
    return true;
}

/* ---- arrays ---- */

struct hashed {
    uint64_t hash;
    const json_t *v;
};

/* Equal values have equal hashes; the order of properties does not matter. */
static uint64_t hash_of(struct checking *c, const json_t *v)
{
    uint64_t sum = json_is_array(v);
    const char *name;
    double number;
    json_t *of;
    size_t i, bytes;

    if (!spend(c, 1))
        return 0;
    switch (json_typeof(v)) {
    case JSON_STRING:
        spend(c, (int64_t)(json_string_length(v) / 16));
        return hash_keyed(0, json_string_value(v), json_string_length(v));
    case JSON_INTEGER:
    case JSON_REAL:
        number = json_number_value(v) + 0.0; /* 0 and -0 are equal */
        return hash_keyed(1, &number, sizeof number);
    case JSON_ARRAY:
        json_array_foreach((json_t *)(uintptr_t)v, i, of)
        {
            uint64_t hash = hash_of(c, of);

            sum = hash_keyed(sum, &hash, sizeof hash);
        }
        return sum;
    case JSON_OBJECT:
        json_object_keylen_foreach((json_t *)(uintptr_t)v, name, bytes, of)
        {
            uint64_t hash = hash_of(c, of);

            sum += hash_keyed(hash_keyed(2, name, bytes), &hash, sizeof hash);
        }
        return sum;
    default:
        return hash_keyed(3,
                          json_is_true(v)   ? "t"
                          : json_is_null(v) ? "n"
                                            : "f",
                          1);
    }
}

static int by_hash(const void *left, const void *right)
{
    const struct hashed *a = left, *b = right;

    return (a->hash > b->hash) - (a->hash < b->hash);
}

/* Values with equal hashes are next to each other, and nearly always equal. */
static bool are_unique(struct checking *c, const json_t *v)
{
    size_t n = json_array_size(v);
    struct hashed *all = gr_alloc((n + 1) * sizeof *all);
    bool unique = true;

    for (size_t i = 0; i < n; i++)
        all[i] = (struct hashed){hash_of(c, json_array_get(v, i)),
                                 json_array_get(v, i)};
    if (c->steps >= 0)
        qsort(all, n, sizeof *all, by_hash);
    for (size_t i = 1; i < n && unique && c->steps >= 0; i++)
        unique = all[i].hash != all[i - 1].hash ||
                 !json_equal(all[i].v, all[i - 1].v);
    free(all);
    return unique && c->steps >= 0;
}

static bool fits_contains(struct checking *c, const struct node *n,
                          const json_t *v, const struct place *at)
{
    int64_t count = 0;
    json_t *of;
    size_t i;

    if (n->contains == NONE)
        return true;
    c->quiet++;
    json_array_foreach((json_t *)(uintptr_t)v, i, of)
        count += fits(c, n->contains, of, at);
    c->quiet--;
    if (count < n->min_contains)
        return fails(c, at, "contains",
                     "must have at least %lld items that fit contains",
                     (long long)n->min_contains);
    if (n->max_contains >= 0 && count > n->max_contains)
        return fails(c, at, "maxContains",
                     "must have at most %lld items that fit contains",
                     (long long)n->max_contains);
    return c->steps >= 0;
}

static bool fits_array(struct checking *c, const struct node *n,
                       const json_t *v, const struct place *at)
{
    double count = (double)json_array_size(v);
    json_t *of;
    size_t i;

    if (has(n, MIN_ITEMS) && count < n->limit[MIN_ITEMS])
        return fails(c, at, "minItems", "must have at least %.0f items",
                     n->limit[MIN_ITEMS]);
    if (has(n, MAX_ITEMS) && count > n->limit[MAX_ITEMS])
        return fails(c, at, "maxItems", "must have at most %.0f items",
                     n->limit[MAX_ITEMS]);
    if (n->unique && !are_unique(c, v))
        return fails(c, at, "uniqueItems", "must not have equal items");
    if (n->items != NONE || n->first_items.count)
        json_array_foreach((json_t *)(uintptr_t)v, i, of)
        {
            struct place in = {at, NULL, i};
            int node = i < n->first_items.count ? n->first_items.nodes[i]
                                                : n->items;

            if (node != NONE && !fits(c, node, of, &in))
                return false;
        }
    return fits_contains(c, n, v, at);
}

/* ---- combinations ---- */

static bool tries(struct checking *c, int node, const json_t *v,
                  const struct place *at)
{
    bool good;

    c->quiet++;
    good = fits(c, node, v, at);
    c->quiet--;
    return good;
}

static bool fits_combinations(struct checking *c, const struct node *n,
                              const json_t *v, const struct place *at)
{
    const struct branches *all = &n->combined[ALL_OF],
                          *any = &n->combined[ANY_OF],
                          *one = &n->combined[ONE_OF];
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++)
        if (!fits(c, all->nodes[i], v, at))
            return false;
    for (size_t i = 0; i < any->count && !count; i++)
        count = tries(c, any->nodes[i], v, at);
    if (any->count && !count)
        return fails(c, at, "anyOf", "fits none of the schemas of anyOf");
    count = 0;
    for (size_t i = 0; i < one->count && count < 2; i++)
        count += tries(c, one->nodes[i], v, at);
    if (one->count && count != 1)
        return fails(c, at, "oneOf", "fits %s of the schemas of oneOf",
                     count ? "several" : "none");
    if (n->negated != NONE && tries(c, n->negated, v, at))
        return fails(c, at, "not", "fits the schema of not");
    if (n->condition != NONE) {
        int node = tries(c, n->condition, v, at) ? n->then : n->otherwise;

        if (node != NONE && !fits(c, node, v, at))
            return false;
    }
    return n->ref == NONE || fits(c, n->ref, v, at);
}

static bool fits(struct checking *c, int node, const json_t *v,
                 const struct place *at)
{
    const struct node *n = &c->s->nodes[node];
    bool good;

    if (n->never)
        return fails(c, at, "false", "is not allowed");
    if (c->level == JSON_SCHEMA_LEVELS_MAX)
        c->steps = -1;
    if (!spend(c, 1))
        return false;
    c->level++;
    good = fits_type(c, n, v, at) && fits_values(c, n, v, at);
    if (good && json_is_number(v))
        good = fits_number(c, n, v, at);
    else if (good && json_is_string(v))
        good = fits_string(c, n, v, at);
    else if (good && json_is_object(v))
        good = fits_object(c, n, v, at);
    else if (good && json_is_array(v))
        good = fits_array(c, n, v, at);
    good = good && fits_combinations(c, n, v, at);
    c->level--;
    return good;
}

bool json_schema_fits(const struct json_schema *s, const json_t *value,
                      struct json_schema_wrong *wrong)
{
    static const struct place top = {0};
    struct checking c = {
        .s = s, .wrong = wrong, .steps = JSON_SCHEMA_STEPS_MAX};
    bool good;

    *wrong = (struct json_schema_wrong){.rule = ""};
    good = fits(&c, 0, value, &top);
    if (c.steps < 0)
        explain(wrong, &top, "steps",
                "needs more than %d steps, or %d schemas inside of each other",
                JSON_SCHEMA_STEPS_MAX, JSON_SCHEMA_LEVELS_MAX);
    return good && c.steps >= 0;
}
