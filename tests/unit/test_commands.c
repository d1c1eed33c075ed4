/* Tests of the check of requests and replies against their declarations, and of the
 * declarations themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include "commands.h"
#include <cmocka.h>
#include <string.h>

/* ---- a command for tests ---- */

static const char *const colours[] = {"red", "green", "blue", NULL};
static const struct value word = {
    .name = "word", .type = VALUE_TEXT, .min = 1, .max = 3};
static const struct value number = {
    .name = "number", .type = VALUE_INTEGER, .max = 9};
static const struct value inner[] = {
    {.name = "name",
     .type = VALUE_TEXT,
     .flags = VALUE_REQUIRED,
     .help = "its name"},
    {.name = "size", .type = VALUE_INTEGER, .min = 1, .max = 5},
    {0}};

static const struct value args[] = {
    {.name = "id",
     .type = VALUE_TEXT,
     .flags = VALUE_REQUIRED,
     .help = "which one",
     .min = 1,
     .max = 5},
    {.name = "text", .type = VALUE_TEXT},
    {.name = "pattern", .type = VALUE_PATTERN, .max = 4},
    {.name = "choice", .type = VALUE_CHOICE, .choices = colours},
    {.name = "integer", .type = VALUE_INTEGER, .min = -1, .max = 10},
    {.name = "natural", .type = VALUE_INTEGER},
    {.name = "number", .type = VALUE_NUMBER},
    {.name = "bool", .type = VALUE_BOOL},
    {.name = "at_ms", .type = VALUE_TIME_MS},
    {.name = "bytes", .type = VALUE_BASE64},
    {.name = "object", .type = VALUE_OBJECT, .fields = inner},
    {.name = "list", .type = VALUE_LIST, .item = &word, .min = 1, .max = 2},
    {.name = "map", .type = VALUE_MAP, .item = &number},
    {.name = "any", .type = VALUE_ANY},
    {.name = "or_null", .type = VALUE_TEXT, .flags = VALUE_NULL},
    {0}};

static const struct value row_fields[] = {
    {.name = "id", .type = VALUE_TEXT, .help = "its id", .max = 3},
    {.name = "at", .type = VALUE_TIME, .flags = VALUE_NULL},
    {.name = "why", .type = VALUE_TEXT, .flags = VALUE_ABSENT},
    {0}};
static const struct value row = {
    .name = "row", .type = VALUE_OBJECT, .fields = row_fields};
static const struct value reply_fields[] = {
    {.name = "rows", .type = VALUE_LIST, .item = &row}, {0}};
static const struct value other = {
    .name = "reply", .type = VALUE_LIST, .item = &number};

static const struct command_spec spec = {
    .name = "paint",
    .args = args,
    .reply = {.name = "reply", .type = VALUE_OBJECT, .fields = reply_fields},
    .or_reply = &other,
};
static const struct command_spec bare = {
    .name = "bare", .reply = {.name = "reply", .type = VALUE_ANY}};

struct check {
    const char *json; /* ' is written for " */
    const char *why;  /* NULL: it fits */
};

static json_t *read(const char *text)
{
    char *copy = gr_strdup(text);
    json_t *j;

    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    j = json_loads(copy, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    free(copy);
    return j;
}

static void check(bool fits, const char *why, const struct check *c)
{
    if (fits != !c->why)
        fail_msg("%s: %s", c->json, fits ? "it should not fit" : why);
    if (c->why && strcmp(c->why, why) != 0)
        fail_msg("%s: \"%s\", not \"%s\"", c->json, why, c->why);
}

/* ---- requests ---- */

static void arguments_are_checked(void **state)
{
    static const struct check checks[] = {
        {"{'id':'x'}", NULL},
        {"{}", "args.id is missing: which one"},
        {"{'id':null}", "args.id: a text is needed"},
        {"{'id':''}", "args.id: from 1 to 5 characters is needed"},
        {"{'id':'12345'}", NULL},
        {"{'id':'123456'}", "args.id: from 1 to 5 characters is needed"},
        {"{'id':'äöüßé'}", NULL},
        {"{'id':1}", "args.id: a text is needed"},
        {"{'id':'x','text':''}", NULL},
        {"{'id':'x','pattern':'a*'}", NULL},
        {"{'id':'x','pattern':'abcd*'}",
         "args.pattern: from 0 to 4 characters is needed"},
        {"{'id':'x','pattern':[]}",
         "args.pattern: a text, in which * stands for any text is needed"},
        {"{'id':'x','choice':'green'}", NULL},
        {"{'id':'x','choice':'pink'}",
         "args.choice: \"pink\" is unknown; it is red, green or blue"},
        {"{'id':'x','choice':7}", "args.choice: a word is needed"},
        {"{'id':'x','integer':-1}", NULL},
        {"{'id':'x','integer':10}", NULL},
        {"{'id':'x','integer':-2}", "args.integer: from -1 to 10 is needed"},
        {"{'id':'x','integer':11}", "args.integer: from -1 to 10 is needed"},
        {"{'id':'x','integer':1.0}", "args.integer: a whole number is needed"},
        {"{'id':'x','integer':'1'}", "args.integer: a whole number is needed"},
        {"{'id':'x','natural':9007199254740993}", NULL},
        {"{'id':'x','natural':-1}", "args.natural: at least 0 is needed"},
        {"{'id':'x','number':1.5}", NULL},
        {"{'id':'x','number':1}", NULL},
        {"{'id':'x','number':'1'}", "args.number: a number is needed"},
        {"{'id':'x','bool':false}", NULL},
        {"{'id':'x','bool':0}", "args.bool: true or false is needed"},
        {"{'id':'x','at_ms':1700000000000}", NULL},
        {"{'id':'x','at_ms':-1}", "args.at_ms: at least 0 is needed"},
        {"{'id':'x','at_ms':'24h'}",
         "args.at_ms: a time in milliseconds since 1970 is needed"},
        {"{'id':'x','bytes':'aGk='}", NULL},
        {"{'id':'x','bytes':1}", "args.bytes: bytes in base64 is needed"},
        {"{'id':'x','object':{'name':'n','size':5}}", NULL},
        {"{'id':'x','object':{'size':5}}",
         "args.object.name is missing: its name"},
        {"{'id':'x','object':{'name':'n','size':6}}",
         "args.object.size: from 1 to 5 is needed"},
        {"{'id':'x','object':{'name':'n','no':6}}",
         "args.object.no: it is not declared"},
        {"{'id':'x','object':[]}", "args.object: an object is needed"},
        {"{'id':'x','list':['a','abc']}", NULL},
        {"{'id':'x','list':[]}", "args.list: from 1 to 2 items is needed"},
        {"{'id':'x','list':['a','b','c']}",
         "args.list: from 1 to 2 items is needed"},
        {"{'id':'x','list':['a','']}",
         "args.list[1]: from 1 to 3 characters is needed"},
        {"{'id':'x','list':[null]}", "args.list[0]: a text is needed"},
        {"{'id':'x','list':'a'}", "args.list: a list is needed"},
        {"{'id':'x','map':{'a':1,'b':9}}", NULL},
        {"{'id':'x','map':{'a':10}}", "args.map.a: from 0 to 9 is needed"},
        {"{'id':'x','map':[]}", "args.map: an object is needed"},
        {"{'id':'x','any':[null,{}]}", NULL},
        {"{'id':'x','or_null':null}", NULL},
        {"{'id':'x','or_null':1}", "args.or_null: a text is needed"},
    };
    char why[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        json_t *j = read(checks[i].json);

        check(command_args_fit(&spec, j, why), why, &checks[i]);
        json_decref(j);
    }
}

static void unknown_arguments_are_refused(void **state)
{
    json_t *j = json_pack("{s:s}", "end_point", "crm");
    char why[200];

    (void)state;
    assert_false(command_args_fit(&spec, j, why));
    assert_string_equal(
        why, "paint has no argument \"end_point\"; it has id text pattern "
             "choice integer natural number bool at_ms bytes object list map "
             "any or_null");
    assert_false(command_args_fit(&bare, j, why));
    assert_string_equal(why, "bare has no argument \"end_point\"; it has none");
    assert_true(command_args_fit(&bare, NULL, why));
    assert_false(command_args_fit(&spec, NULL, why));
    assert_string_equal(why, "args.id is missing: which one");
    json_decref(j);
}

/* An argument has a bound even if its declaration has none; a text in a reply has not. */
static void a_text_has_the_usual_bound_only_in_a_request(void **state)
{
    char text[VALUE_TEXT_MAX + 2], why[200];
    json_t *j, *reply;

    (void)state;
    memset(text, 'x', sizeof text);
    text[VALUE_TEXT_MAX] = 0;
    j = json_pack("{s:s,s:s}", "id", "x", "text", text);
    assert_true(command_args_fit(&spec, j, why));
    text[VALUE_TEXT_MAX] = 'x';
    text[VALUE_TEXT_MAX + 1] = 0;
    json_object_set_new(j, "text", json_string(text));
    assert_false(command_args_fit(&spec, j, why));
    assert_string_equal(why, "args.text: from 0 to 4096 characters is needed");
    reply = json_pack("{s:[{s:s,s:n,s:s}]}", "rows", "id", "x", "at", "why",
                      text);
    assert_true(command_reply_fits(&spec, reply, why));
    json_decref(reply);
    json_decref(j);
}

static void a_pattern_is_shorter_than_a_text(void **state)
{
    static const struct value pattern[] = {
        {.name = "pattern", .type = VALUE_PATTERN}, {0}};
    const struct command_spec look = {
        .name = "look", .args = pattern, .reply = {.type = VALUE_ANY}};
    char text[VALUE_PATTERN_MAX + 2], why[200];
    json_t *j;

    (void)state;
    memset(text, '*', sizeof text);
    text[VALUE_PATTERN_MAX] = 0;
    j = json_pack("{s:s}", "pattern", text);
    assert_true(command_args_fit(&look, j, why));
    text[VALUE_PATTERN_MAX] = '*';
    text[VALUE_PATTERN_MAX + 1] = 0;
    json_object_set_new(j, "pattern", json_string(text));
    assert_false(command_args_fit(&look, j, why));
    assert_string_equal(why,
                        "args.pattern: from 0 to 256 characters is needed");
    json_decref(j);
}

/* ---- replies ---- */

static void replies_are_checked(void **state)
{
    static const struct check checks[] = {
        {"{'rows':[]}", NULL},
        {"{'rows':[{'id':'a','at':null}]}", NULL},
        {"{'rows':[{'id':'a','at':'2026-01-01T00:00:00.000Z','why':'x'}]}",
         NULL},
        {"[1,2]", NULL}, /* the other form */
        {"{}", "reply.rows: a list is needed"},
        {"{'rows':[{'id':'a'}]}",
         "reply.rows[0].at: a time (RFC 3339) is needed"},
        {"{'rows':[{'at':null}]}", "reply.rows[0].id is missing: its id"},
        {"{'rows':[{'id':null,'at':null}]}",
         "reply.rows[0].id: a text is needed"},
        {"{'rows':[{'id':'a','at':null,'why':null}]}",
         "reply.rows[0].why: a text is needed"},
        {"{'rows':[{'id':'abcd','at':null}]}",
         "reply.rows[0].id: from 0 to 3 characters is needed"},
        {"{'rows':[],'more':1}", "reply.more: it is not declared"},
        {"[1,10]", "reply: an object is needed"},
    };
    char why[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        json_t *j = read(checks[i].json);

        check(command_reply_fits(&spec, j, why), why, &checks[i]);
        json_decref(j);
    }
}

static void public_names_of_times_have_no_unit(void **state)
{
    char *name = value_public_name(command_arg(&spec, "at_ms"));

    (void)state;
    assert_string_equal(name, "at");
    free(name);
    name = value_public_name(command_arg(&spec, "text"));
    assert_string_equal(name, "text");
    free(name);
    assert_null(command_arg(&spec, "none"));
}

/* ---- the declarations ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A command with a declared reply also describes its arguments. */
static void check_args(const struct command_spec *c)
{
    bool declared = c->reply.type != VALUE_ANY;

    for (const struct value *v = c->args; v && v->name; v++) {
        if (declared && (!v->help || !*v->help))
            fail_msg("%s %s: argument %s has no help", c->process, c->name,
                     v->name);
        if (ends_with(v->name, "_ms") && v->type != VALUE_TIME_MS &&
            v->type != VALUE_DURATION_MS)
            fail_msg("%s %s: argument %s is not a time", c->process, c->name,
                     v->name);
        if (v->max && v->min > v->max)
            fail_msg("%s %s: argument %s has no value that fits", c->process,
                     c->name, v->name);
    }
}

static void check_rows(const struct command_spec *c)
{
    const struct value *f = c->reply.fields;

    while (c->rows && f && f->name && strcmp(f->name, c->rows) != 0)
        f++;
    if (c->rows && (!f || !f->name || f->type != VALUE_LIST))
        fail_msg("%s %s: the reply has no list %s", c->process, c->name,
                 c->rows);
}

/* Each name in braces is an argument. */
static void check_path(const struct command_spec *c, const char *path)
{
    for (const char *p = path; (p = strchr(p, '{')); p++) {
        char *name = gr_strndup(p + 1, strcspn(p + 1, "}"));
        const struct value *arg = command_arg(c, name);

        if (!arg)
            fail_msg("%s %s: %s: no argument %s", c->process, c->name, path,
                     name);
        free(name);
    }
}

typedef void route_fn(const struct command_spec *c,
                      const struct command_route *r, void *arg);

static void each_route(route_fn *fn, void *arg)
{
    for (size_t i = 0; command_lists[i].commands; i++)
        for (const struct command_spec *const *c = command_lists[i].commands;
             *c; c++)
            for (size_t r = 0;
                 r < COUNT_OF((*c)->routes) && (*c)->routes[r].path; r++)
                fn(*c, &(*c)->routes[r], arg);
}

/* The path with an empty name in its braces: two paths that differ only there are the same. */
static char *shape_of(const struct command_route *r)
{
    struct buf b;

    buf_init(&b, 200);
    buf_printf(&b, "%s ", r->method);
    for (const char *p = r->path; *p; p++) {
        buf_put(&b, p, 1);
        if (*p == '{')
            p += strcspn(p, "}") - 1;
    }
    return buf_take(&b);
}

static void put_route(const struct command_spec *c,
                      const struct command_route *r, void *arg)
{
    char *shape = shape_of(r);

    check_path(c, r->path);
    if (r->path[0] != '/' || c->flags & COMMAND_LOCAL)
        fail_msg("%s %s: %s", c->process, c->name, r->path);
    if (json_object_get(arg, shape))
        fail_msg("two commands have the route %s", shape);
    json_object_set_new(arg, shape, json_true());
    free(shape);
}

static void declarations_are_complete(void **state)
{
    json_t *routes = json_object();

    (void)state;
    for (size_t i = 0; command_lists[i].commands; i++)
        for (const struct command_spec *const *c = command_lists[i].commands;
             *c; c++) {
            if (!ends_with((*c)->help, "."))
                fail_msg("%s %s: its help is not a sentence", (*c)->process,
                         (*c)->name);
            if ((*c)->flags & COMMAND_READS &&
                (*c)->flags & (COMMAND_ACTS | COMMAND_LATER))
                fail_msg("%s %s: it does not only read", (*c)->process,
                         (*c)->name);
            check_args(*c);
            check_rows(*c);
        }
    each_route(put_route, routes);
    assert_true(json_object_size(routes) > 10);
    json_decref(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(unknown_arguments_are_refused),
        cmocka_unit_test(a_text_has_the_usual_bound_only_in_a_request),
        cmocka_unit_test(a_pattern_is_shorter_than_a_text),
        cmocka_unit_test(replies_are_checked),
        cmocka_unit_test(public_names_of_times_have_no_unit),
        cmocka_unit_test(declarations_are_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
