/* conf_json: JSON as the nodes that conf reads, and printed values as JSON. */
#include "conf.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- from JSON ---- */

struct making {
    yaml_document_t *out;
    size_t values;
    const char *wrong;
};

static int or_die(int node)
{
    if (!node)
        die(EXIT_STORAGE, "out of memory");
    return node;
}

static int add_text(struct making *m, const char *text, size_t n,
                    yaml_scalar_style_t style)
{
    m->values++;
    return or_die(yaml_document_add_scalar(
        m->out, NULL, (const yaml_char_t *)text, (int)n, style));
}

/* Numbers, true, false and null are plain, as in YAML. */
static int add_plain(struct making *m, const json_t *v)
{
    char text[64];
    size_t n = json_dumpb(v, text, sizeof text,
                          JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    return add_text(m, text, n < sizeof text ? n : 0, YAML_PLAIN_SCALAR_STYLE);
}

static int add_value(struct making *m, const json_t *v, size_t depth);

static int add_list(struct making *m, const json_t *list, size_t depth)
{
    int node = or_die(
        yaml_document_add_sequence(m->out, NULL, YAML_FLOW_SEQUENCE_STYLE));
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        int child = add_value(m, item, depth + 1);

        if (!child)
            return 0;
        or_die(yaml_document_append_sequence_item(m->out, node, child));
    }
    return node;
}

static int add_object(struct making *m, const json_t *object, size_t depth)
{
    int node = or_die(
        yaml_document_add_mapping(m->out, NULL, YAML_FLOW_MAPPING_STYLE));
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int name = add_text(m, key, strlen(key),
                            YAML_DOUBLE_QUOTED_SCALAR_STYLE);
        int child = add_value(m, value, depth + 1);

        if (!child)
            return 0;
        or_die(yaml_document_append_mapping_pair(m->out, node, name, child));
    }
    return node;
}

/* 0: it is beyond a bound. */
static int add_value(struct making *m, const json_t *v, size_t depth)
{
    if (++m->values > CONF_JSON_MAX_VALUES)
        m->wrong = "the document has more than 4096 keys and values";
    else if (depth > CONF_JSON_MAX_DEPTH)
        m->wrong = "the document is nested more than 8 levels deep";
    if (m->wrong)
        return 0;
    if (json_is_object(v))
        return add_object(m, v, depth);
    if (json_is_array(v))
        return add_list(m, v, depth);
    if (json_is_string(v))
        return add_text(m, json_string_value(v), json_string_length(v),
                        YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    return add_plain(m, v);
}

const char *conf_json_document(const json_t *doc, yaml_document_t *out)
{
    struct making m = {.out = out};

    or_die(yaml_document_initialize(out, NULL, NULL, NULL, 1, 1));
    add_value(&m, doc, 0);
    return m.wrong;
}

/* ---- to JSON ---- */

static json_t *json_at(yaml_document_t *d, int id);

/* conf_put_text() has written each dollar twice. */
static char *single_dollars(const yaml_node_t *n)
{
    char *text = gr_strndup((const char *)n->data.scalar.value,
                            n->data.scalar.length);
    char *to = text;

    for (const char *from = text; *from; from++) {
        *to++ = *from;
        if (from[0] == '$' && from[1] == '$')
            from++;
    }
    *to = 0;
    return text;
}

static json_t *scalar_json(const yaml_node_t *n)
{
    char *text = single_dollars(n);
    json_t *out = NULL;

    /* A plain word that JSON has, such as 5 or true, is that; 15s and POST are texts. */
    if (n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        out = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!out)
        out = json_string(text);
    free(text);
    return out;
}

static json_t *list_json(yaml_document_t *d, const yaml_node_t *n)
{
    json_t *list = json_array();

    for (yaml_node_item_t *i = n->data.sequence.items.start;
         i < n->data.sequence.items.top; i++)
        json_array_append_new(list, json_at(d, *i));
    return list;
}

static json_t *object_json(yaml_document_t *d, const yaml_node_t *n)
{
    json_t *object = json_object();

    for (yaml_node_pair_t *p = n->data.mapping.pairs.start;
         p < n->data.mapping.pairs.top; p++) {
        char *key = single_dollars(yaml_document_get_node(d, p->key));

        json_object_set_new(object, key, json_at(d, p->value));
        free(key);
    }
    return object;
}

static json_t *json_at(yaml_document_t *d, int id)
{
    const yaml_node_t *n = yaml_document_get_node(d, id);

    return n->type == YAML_MAPPING_NODE    ? object_json(d, n)
           : n->type == YAML_SEQUENCE_NODE ? list_json(d, n)
                                           : scalar_json(n);
}

json_t *conf_json_of(struct bytes text)
{
    yaml_parser_t p;
    yaml_document_t d;
    struct buf whole;
    json_t *out = NULL;

    buf_init(&whole, CONF_FILE_MAX_BYTES);
    buf_puts(&whole, "v:");
    buf_put(&whole, text.p, text.n);
    if (!whole.failed) {
        if (!yaml_parser_initialize(&p))
            die(EXIT_STORAGE, "out of memory");
        yaml_parser_set_input_string(&p, (const unsigned char *)whole.data,
                                     whole.len);
        if (yaml_parser_load(&p, &d)) {
            const yaml_node_t *root = yaml_document_get_root_node(&d);

            if (root && root->type == YAML_MAPPING_NODE)
                out = json_at(&d, root->data.mapping.pairs.start->value);
            yaml_document_delete(&d);
        }
        yaml_parser_delete(&p);
    }
    buf_fini(&whole);
    return out;
}
