/* event_types: stores the catalogue of event types, and replies to the commands about it. */
#include "event_types.h"
#include "event_catalogue.h"
#include "json_schema.h"
#include "json_text.h"
#include "log.h"
#include "row.h"
#include "sequencer.h"
#include "sha256.h"
#include "store.h"
#include <stdio.h>
#include <string.h>

enum { PAGE_USUAL = 100 };

/* Empty texts are NULL in JSON. */
#define TYPE_COLUMNS(F, X) \
    F(own, name)           \
    X(i64, version)        \
    X(own, description)    \
    X(own, example)        \
    X(own, schema)         \
    X(i64, created_ms)     \
    X(i64, changed_ms)     \
    X(own, changed_by)
struct type_row {
    ROW_FIELDS(TYPE_COLUMNS)
};

#define SELECT_TYPE "SELECT " ROW_NAMES(TYPE_COLUMNS) " FROM event_types "

struct event_types {
    struct db *db;
    char digest[2 * SHA256_BYTES + 1]; /* "": to be made */
    stmt *put, *drop, *find, *list, *all, *sizes;
};

struct event_types *event_types_open(struct db *db)
{
    struct event_types *t = gr_alloc(sizeof *t);

    t->db = db;
    t->put = db_prepare(db,
                        ROW_REPLACE_WITH("event_types", TYPE_COLUMNS, "", ""));
    t->drop = db_prepare(db, "DELETE FROM event_types WHERE name = ?");
    t->find = db_prepare(db, SELECT_TYPE "WHERE name = ?");
    t->list = db_prepare(db,
                         SELECT_TYPE "WHERE name > ? ORDER BY name LIMIT ?");
    t->all = db_prepare(db,
                        "SELECT name, schema FROM event_types ORDER BY name");
    t->sizes = db_prepare(
        db, "SELECT count(*), coalesce(sum(length(CAST(schema AS BLOB))), 0) "
            "FROM event_types WHERE name <> ?");
    return t;
}

void event_types_close(struct event_types *t)
{
    free(t);
}

void event_types_undo(struct event_types *t)
{
    *t->digest = 0;
}

/* ---- rows ---- */

static const char *arg_text(const json_t *args, const char *name)
{
    const char *text = json_string_value(json_object_get(args, name));

    return text ? text : "";
}

/* Call fini_row() if it is there. */
static bool find(struct event_types *t, const char *name, struct type_row *row)
{
    bool there;
    int i = 0;

    bind_text(t->find, 1, name);
    there = db_step(t->db, t->find);
    if (there)
        ROW_READ(TYPE_COLUMNS, t->find, i, row);
    db_done(t->find);
    return there;
}

static void fini_row(struct type_row *row)
{
    ROW_FREE(TYPE_COLUMNS, row);
}

static json_t *value_of(const char *text)
{
    json_t *value =
        *text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;

    return value ? value : json_null();
}

static json_t *row_json(const struct type_row *row)
{
    return json_pack(
        "{s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "name", json_text_of(row->name),
        "version", (json_int_t)row->version, "description",
        json_text_or_null(row->description), "example", value_of(row->example),
        "schema", value_of(row->schema), "created_at",
        json_time(row->created_ms), "changed_at", json_time(row->changed_ms),
        "changed_by", json_text_of(row->changed_by));
}

/* The caller frees it; "": there is no value. */
static char *text_of(const json_t *value)
{
    return value && !json_is_null(value)
               ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY)
               : gr_strdup("");
}

/* ---- reading ---- */

json_t *event_types_list(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct event_types *t = q->event_types;
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    json_t *list = json_array(), *next = json_null();

    (void)why;
    limit = limit ? limit : PAGE_USUAL;
    bind_text(t->list, 1, arg_text(args, "after"));
    bind_i64(t->list, 2, limit);
    while (db_step(t->db, t->list)) {
        struct type_row row;
        int i = 0;

        ROW_READ(TYPE_COLUMNS, t->list, i, &row);
        json_array_append_new(
            list,
            json_pack("{s:o,s:I,s:o,s:b,s:o,s:o}", "name",
                      json_text_of(row.name), "version",
                      (json_int_t)row.version, "description",
                      json_text_or_null(row.description), "has_schema",
                      *row.schema != 0, "created_at", json_time(row.created_ms),
                      "changed_at", json_time(row.changed_ms)));
        if (json_array_size(list) == (size_t)limit)
            next = json_text_of(row.name);
        fini_row(&row);
    }
    db_done(t->list);
    return json_pack("{s:o,s:o}", "event_types", list, "next", next);
}

static bool find_or_fail(struct event_types *t, json_t *args,
                         struct type_row *row, char why[200])
{
    const char *name = arg_text(args, "name");

    if (find(t, name, row))
        return true;
    control_fail(why, CONTROL_NOT_FOUND,
                 "there is no event type %.80s in the catalogue", name);
    return false;
}

json_t *event_types_read(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct type_row row;
    json_t *out = NULL;

    if (find_or_fail(q->event_types, args, &row, why)) {
        out = row_json(&row);
        fini_row(&row);
    }
    return out;
}

/* ---- writing ---- */

static bool name_is_good(const char *name, char why[200])
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || *c == '*') {
            control_fail(
                why, CONTROL_INVALID,
                "args.name: a type has no control characters and no *");
            return false;
        }
    return true;
}

/* Whether the schema is one, and the example fits it. */
static bool contents_are_good(const struct type_row *row, char why[200])
{
    struct json_schema_wrong wrong;
    struct json_schema *schema;
    json_t *example;
    bool good = true;

    if (strlen(row->example) > EVENT_EXAMPLE_MAX_BYTES) {
        control_fail(why, CONTROL_INVALID,
                     "args.example: has more than %d bytes",
                     EVENT_EXAMPLE_MAX_BYTES);
        return false;
    }
    if (!*row->schema)
        return true;
    schema = json_schema_new(wire_text(row->schema), &wrong);
    if (!schema) {
        control_fail(why, CONTROL_INVALID, "args.schema: %.80s %.100s",
                     wrong.path, wrong.why);
        return false;
    }
    if (*row->example) {
        example = json_loads(
            row->example,
            JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
        good = json_schema_fits(schema, example, &wrong);
        if (!good)
            control_fail(why, CONTROL_INVALID, "args.example: %.80s %.80s (%s)",
                         wrong.path, wrong.why, wrong.rule);
        json_decref(example);
    }
    json_schema_free(schema);
    return good;
}

static bool has_space(struct event_types *t, const struct type_row *row,
                      char why[200])
{
    int64_t count, bytes;

    bind_text(t->sizes, 1, row->name);
    db_step(t->db, t->sizes);
    count = col_i64(t->sizes, 0);
    bytes = col_i64(t->sizes, 1) + (int64_t)strlen(row->schema);
    db_done(t->sizes);
    if (count < EVENT_TYPES_MAX && bytes <= EVENT_SCHEMAS_MAX_BYTES)
        return true;
    snprintf(why, 200,
             "the catalogue has at most %d types, and %d bytes of schemas in "
             "all: delete some",
             EVENT_TYPES_MAX, EVENT_SCHEMAS_MAX_BYTES);
    return false;
}

/* A version is never used twice, also after a restore: it is a time. */
static int64_t next_version(struct sequencer *q)
{
    int64_t last = store_meta(q->store, "event_type_version");
    int64_t version = q->d.loop.now_ms > last ? q->d.loop.now_ms : last + 1;

    store_meta_set(q->store, "event_type_version", version);
    return version;
}

/* Takes the row over. */
static json_t *put_row(struct sequencer *q, struct type_row *row, char why[200])
{
    struct event_types *t = q->event_types;
    json_t *out = NULL;
    int i = 0;

    if (contents_are_good(row, why) && has_space(t, row, why)) {
        row->version = next_version(q);
        row->changed_ms = q->d.loop.now_ms;
        free(row->changed_by);
        row->changed_by = gr_strdup(control_actor(q->d.control));
        ROW_BIND(TYPE_COLUMNS, t->put, i, row);
        db_run(t->db, t->put);
        *t->digest = 0;
        out = row_json(row);
    }
    fini_row(row);
    return out;
}

json_t *event_types_create(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *name = arg_text(args, "name");
    struct type_row row;

    if (!name_is_good(name, why))
        return NULL;
    if (find(q->event_types, name, &row)) {
        fini_row(&row);
        snprintf(why, 200,
                 "the catalogue has the event type %.80s already: change it",
                 name);
        return NULL;
    }
    row = (struct type_row){
        .name = gr_strdup(name),
        .description = gr_strdup(arg_text(args, "description")),
        .example = text_of(json_object_get(args, "example")),
        .schema = text_of(json_object_get(args, "schema")),
        .created_ms = q->d.loop.now_ms,
        .changed_by = gr_strdup("")};
    return put_row(q, &row, why);
}

/* Whether it still has the version that the caller has seen. */
static bool is_version(const json_t *args, struct type_row *row, char why[200])
{
    const json_t *version = json_object_get(args, "version");

    if (!version || json_integer_value(version) == row->version)
        return true;
    control_fail(why, CONTROL_CHANGED,
                 "the event type %.80s has changed: its version is %lld",
                 row->name, (long long)row->version);
    fini_row(row);
    return false;
}

json_t *event_types_change(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct type_row row;
    struct {
        const char *name;
        char **text;
    } values[] = {{"example", &row.example}, {"schema", &row.schema}};

    if (!find_or_fail(q->event_types, args, &row, why) ||
        !is_version(args, &row, why))
        return NULL;
    if (json_object_get(args, "description")) {
        free(row.description);
        row.description = gr_strdup(arg_text(args, "description"));
    }
    for (size_t i = 0; i < COUNT_OF(values); i++)
        if (json_object_get(args, values[i].name)) {
            free(*values[i].text);
            *values[i].text = text_of(json_object_get(args, values[i].name));
        }
    return put_row(q, &row, why);
}

json_t *event_types_delete(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct event_types *t = q->event_types;
    struct type_row row;
    json_t *out;

    if (!find_or_fail(t, args, &row, why) || !is_version(args, &row, why))
        return NULL;
    bind_text(t->drop, 1, row.name);
    db_run(t->db, t->drop);
    *t->digest = 0;
    out = json_pack("{s:o}", "name", json_text_of(row.name));
    fini_row(&row);
    return out;
}

/* ---- for ingress ---- */

static void make_digest(struct event_types *t)
{
    uint8_t sum[SHA256_BYTES];
    struct buf all;

    buf_init(&all, 2 * EVENT_SCHEMAS_MAX_BYTES +
                       (size_t)EVENT_TYPES_MAX * EVENT_TYPE_MAX_BYTES);
    while (db_step(t->db, t->all))
        for (int i = 0; i < 2; i++) {
            const char *text = col_text(t->all, i);

            buf_put(&all, text, strlen(text) + 1);
        }
    db_done(t->all);
    sha256((struct bytes){all.len ? all.data : "", all.len}, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(t->digest + 2 * i, 3, "%02x", sum[i]);
    buf_fini(&all);
}

json_t *event_types_catalogue(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct event_types *t = q->event_types;
    json_t *types = json_null();

    (void)why;
    if (!*t->digest)
        make_digest(t);
    if (strcmp(arg_text(args, "digest"), t->digest) != 0) {
        types = json_array();
        while (db_step(t->db, t->all))
            json_array_append_new(
                types, json_pack("{s:o,s:o}", "name",
                                 json_text_of(col_text(t->all, 0)), "schema",
                                 json_text_of(col_text(t->all, 1))));
        db_done(t->all);
    }
    return json_pack("{s:s,s:o}", "digest", t->digest, "event_types", types);
}
