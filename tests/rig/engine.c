/* rig-engine: calls the engine of replication as a line of JSON says, and prints what it returned as another, so that
 * tests with real servers can be written in Python (engine_rig.py).
 *
 *   {"call": "append", "epoch": 1, "holder": "00…", "n": 2, "chain": "00…", "next": "00…", "parts": [20480]}
 *
 * The bytes of a part are made from n and its number, so that the reader can compare them. */
#include "clock.h"
#include "engine_check.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const json_t *o, const char *key)
{
    const char *value = json_string_value(json_object_get(o, key));

    return value ? value : "";
}

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void from_hex(const json_t *o, const char *key, uint8_t *out, size_t n)
{
    const char *hex = text(o, key);
    unsigned byte;

    memset(out, 0, n);
    for (size_t i = 0; i < n && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++) {
        out[i] = (uint8_t)byte;
        if (!hex[2 * i + 1] || !hex[2 * i + 2])
            break;
    }
}

static json_t *to_hex(const uint8_t *p, size_t n)
{
    char hex[2 * CHAIN_BYTES + 1];

    for (size_t i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", p[i]);
    return json_string(hex);
}

/* The bytes of a part: the same for the same numbers, and not compressible. */
static void fill(struct buf *out, int64_t n, int64_t part, size_t bytes)
{
    uint64_t x = (uint64_t)n * 0x9e3779b97f4a7c15u + (uint64_t)part + 1;

    buf_init(out, bytes + 8);
    for (size_t i = 0; i < bytes; i += sizeof x) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        buf_put(out, &x, bytes - i < sizeof x ? bytes - i : sizeof x);
    }
}

static bool is_filled(struct bytes bytes, int64_t n, int64_t part)
{
    struct buf expected;
    bool same;

    fill(&expected, n, part, bytes.n);
    same = !bytes.n || memcmp(expected.data, bytes.p, bytes.n) == 0;
    buf_fini(&expected);
    return same;
}

static struct position position(const json_t *o)
{
    struct position at = {.n = number(o, "n")};

    from_hex(o, "history", at.history, sizeof at.history);
    from_hex(o, "chain", at.chain, sizeof at.chain);
    return at;
}

static struct tenure tenure(const json_t *o)
{
    struct tenure mine = {.epoch = number(o, "epoch"),
                          .schema = (int)number(o, "schema")};

    from_hex(o, "holder", mine.holder, sizeof mine.holder);
    return mine;
}

static struct owner owner(const json_t *o)
{
    struct owner seen = {.exists = true,
                         .at = position(o),
                         .epoch = number(o, "epoch"),
                         .beat = number(o, "beat"),
                         .claim = number(o, "claim"),
                         .schema = (int)number(o, "schema")};

    from_hex(o, "holder", seen.holder, sizeof seen.holder);
    return seen;
}

static void set_owner(json_t *o, const struct owner *seen)
{
    json_object_set_new(o, "exists", json_boolean(seen->exists));
    json_object_set_new(o, "history", to_hex(seen->at.history, HISTORY_BYTES));
    json_object_set_new(o, "n", json_integer(seen->at.n));
    json_object_set_new(o, "chain", to_hex(seen->at.chain, CHAIN_BYTES));
    json_object_set_new(o, "epoch", json_integer(seen->epoch));
    json_object_set_new(o, "beat", json_integer(seen->beat));
    json_object_set_new(o, "claim", json_integer(seen->claim));
    json_object_set_new(o, "schema", json_integer(seen->schema));
    json_object_set_new(o, "holder", to_hex(seen->holder, HOLDER_BYTES));
    json_object_set_new(o, "host", json_string(seen->host));
    json_object_set_new(o, "heir", json_string(seen->heir));
    json_object_set_new(o, "for_another", json_boolean(seen->for_another));
}

static enum engine_result append(struct engine *e, const json_t *in,
                                 json_t *out, char *why)
{
    const json_t *sizes = json_object_get(in, "parts");
    struct tenure mine = tenure(in);
    struct position before = position(in), after = before;
    struct sealed_parts parts = {.count = json_array_size(sizes)};
    enum engine_result result;
    int64_t beat = -1;

    after.n++;
    from_hex(in, "next", after.chain, sizeof after.chain);
    parts.parts = gr_alloc(parts.count * sizeof *parts.parts);
    for (size_t i = 0; i < parts.count; i++)
        fill(&parts.parts[i], after.n, (int64_t)i,
             (size_t)json_integer_value(json_array_get(sizes, i)));
    result = engine_postgres.append(e, &mine, &before, &after, &parts, &beat,
                                    why);
    for (size_t i = 0; i < parts.count; i++)
        buf_fini(&parts.parts[i]);
    free(parts.parts);
    json_object_set_new(out, "beat", json_integer(beat));
    return result;
}

static json_t *turn(const struct log_row *row)
{
    json_t *sizes = json_array(), *o = json_object();
    bool good = true;

    for (size_t i = 0; i < row->count; i++) {
        good = good && is_filled(row->parts[i], row->n, (int64_t)i);
        json_array_append_new(sizes, json_integer((int64_t)row->parts[i].n));
    }
    json_object_set_new(o, "n", json_integer(row->n));
    json_object_set_new(o, "epoch", json_integer(row->epoch));
    json_object_set_new(o, "chain", to_hex(row->chain, CHAIN_BYTES));
    json_object_set_new(o, "parts", sizes);
    json_object_set_new(o, "good", json_boolean(good));
    return o;
}

static enum engine_result follow(struct engine *e, const json_t *in,
                                 json_t *out, char *why)
{
    struct node me = {.at = position(in),
                      .ready = json_is_true(json_object_get(in, "ready")),
                      .why = text(in, "why"),
                      .peers = (int)number(in, "peers")};
    const struct log_row *rows;
    struct owner seen = {0};
    json_t *turns = json_array();
    size_t count;
    enum engine_result result = engine_postgres.follow(
        e, &me, (size_t)number(in, "max_bytes"), &seen, &rows, &count, why);

    if (result == ENGINE_DONE) {
        set_owner(out, &seen);
        for (size_t i = 0; i < count; i++)
            json_array_append_new(turns, turn(&rows[i]));
    }
    json_object_set_new(out, "turns", turns);
    return result;
}

static enum engine_result put_snapshot(struct engine *e, const json_t *in,
                                       char *why)
{
    struct position at = position(in);
    struct tenure mine = tenure(in);
    enum engine_result result;
    struct buf bytes;

    fill(&bytes, at.n, number(in, "part"), (size_t)number(in, "bytes"));
    result = engine_postgres.put_snapshot(e, &mine, &at, number(in, "part"),
                                          (struct bytes){bytes.data, bytes.len},
                                          why);
    buf_fini(&bytes);
    return result;
}

static enum engine_result get_snapshot(struct engine *e, const json_t *in,
                                       json_t *out, char *why)
{
    int64_t n = 0, epoch = 0;
    enum engine_result result;
    struct buf bytes;

    buf_init(&bytes, SEAL_PART_BYTES);
    result = engine_postgres.get_snapshot(e, number(in, "part"), &n, &epoch,
                                          &bytes, why);
    json_object_set_new(out, "n", json_integer(n));
    json_object_set_new(out, "epoch", json_integer(epoch));
    json_object_set_new(out, "bytes", json_integer((int64_t)bytes.len));
    json_object_set_new(
        out, "good",
        json_boolean(is_filled((struct bytes){bytes.data, bytes.len}, n,
                               number(in, "part"))));
    buf_fini(&bytes);
    return result;
}

static json_t *node_list(const struct engine_node *nodes, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{sssIsbsssisI}", "host", nodes[i].host, "n",
                            (json_int_t)nodes[i].n, "ready", nodes[i].ready,
                            "why", nodes[i].why, "peers", nodes[i].peers,
                            "seen_ms", (json_int_t)nodes[i].seen_ms));
    return list;
}

static enum engine_result nodes(struct engine *e, json_t *out, char *why)
{
    const struct engine_node *list;
    size_t count;
    enum engine_result result = engine_postgres.nodes(e, &list, &count, why);

    json_object_set_new(out, "nodes", node_list(list, count));
    return result;
}

static enum engine_result overview(struct engine *e, json_t *out, char *why)
{
    const struct engine_store *stores;
    json_t *list = json_array();
    size_t count;
    enum engine_result result = engine_postgres.overview(e, &stores, &count,
                                                         why);

    for (size_t i = 0; i < count; i++) {
        const struct engine_store *s = &stores[i];
        json_t *o = json_pack("{sssIsIso}", "process", s->process, "snapshot_n",
                              (json_int_t)s->snapshot_n, "log_bytes",
                              (json_int_t)s->log_bytes, "nodes",
                              node_list(s->nodes, s->node_count));

        set_owner(o, &s->owner);
        json_array_append_new(list, o);
    }
    json_object_set_new(out, "stores", list);
    return result;
}

static enum engine_result put_slice(struct engine *e, const json_t *in,
                                    char *why)
{
    struct position at = position(in);
    struct tenure mine = tenure(in);
    enum engine_result result;
    struct buf bytes;

    fill(&bytes, at.n, number(in, "slice"), (size_t)number(in, "bytes"));
    result = engine_postgres.put_slice(e, &mine, &at, number(in, "slice"),
                                       (struct bytes){bytes.data, bytes.len},
                                       why);
    buf_fini(&bytes);
    return result;
}

static enum engine_result get_slice(struct engine *e, const json_t *in,
                                    json_t *out, char *why)
{
    int64_t n = number(in, "n"), slice = number(in, "slice");
    enum engine_result result;
    struct buf bytes;

    buf_init(&bytes, SEAL_PART_BYTES);
    result = engine_postgres.get_slice(e, n, number(in, "epoch"), slice, &bytes,
                                       why);
    json_object_set_new(out, "bytes", json_integer((int64_t)bytes.len));
    json_object_set_new(out, "good",
                        json_boolean(is_filled(
                            (struct bytes){bytes.data, bytes.len}, n, slice)));
    buf_fini(&bytes);
    return result;
}

static enum engine_result call(struct engine *e, const char *name,
                               const json_t *in, json_t *out, char *why)
{
    struct tenure mine = tenure(in);
    struct position at = position(in);
    struct owner seen = owner(in);
    enum engine_result result;
    int64_t beat = -1;
    bool more = false;

    if (strcmp(name, "append") == 0)
        return append(e, in, out, why);
    if (strcmp(name, "follow") == 0)
        return follow(e, in, out, why);
    if (strcmp(name, "put_snapshot") == 0)
        return put_snapshot(e, in, why);
    if (strcmp(name, "get_snapshot") == 0)
        return get_snapshot(e, in, out, why);
    if (strcmp(name, "nodes") == 0)
        return nodes(e, out, why);
    if (strcmp(name, "overview") == 0)
        return overview(e, out, why);
    if (strcmp(name, "end_history") == 0)
        return engine_postgres.end_history(e, &seen, why);
    if (strcmp(name, "clear") == 0) {
        result = engine_postgres.clear(e, &more, why);
        json_object_set_new(out, "more", json_boolean(more));
        return result;
    }
    if (strcmp(name, "begin_history") == 0)
        return engine_postgres.begin_history(e, &at, (int)number(in, "schema"),
                                             why);
    if (strcmp(name, "release") == 0)
        return engine_postgres.release(e, &mine, &at, number(in, "beat"),
                                       text(in, "heir"), why);
    if (strcmp(name, "claim") == 0)
        return engine_postgres.claim(e, &seen, why);
    if (strcmp(name, "beat") == 0) {
        result = engine_postgres.beat(e, &mine, &at, &beat, why);
        json_object_set_new(out, "beat", json_integer(beat));
        return result;
    }
    if (strcmp(name, "take_over") == 0) {
        uint8_t me[HOLDER_BYTES];

        from_hex(in, "me", me, sizeof me);
        result = engine_postgres.take_over(e, &seen, me, &mine, why);
        json_object_set_new(out, "epoch", json_integer(mine.epoch));
        return result;
    }
    if (strcmp(name, "forget") == 0) {
        result = engine_postgres.forget(e, &mine, number(in, "n"), &more, why);
        json_object_set_new(out, "more", json_boolean(more));
        return result;
    }
    if (strcmp(name, "put_slice") == 0)
        return put_slice(e, in, why);
    if (strcmp(name, "get_slice") == 0)
        return get_slice(e, in, out, why);
    if (strcmp(name, "forget_slices") == 0) {
        result = engine_postgres.forget_slices(e, &mine, &more, why);
        json_object_set_new(out, "more", json_boolean(more));
        return result;
    }
    if (strcmp(name, "forget_unfinished") == 0) {
        result = engine_postgres.forget_unfinished(
            e, &mine, number(in, "after"), number(in, "before"), &more, why);
        json_object_set_new(out, "more", json_boolean(more));
        return result;
    }
    die(EXIT_USAGE, "no such call: %s", name);
}

static void finding(void *self, enum engine_finding_kind kind, const char *what,
                    const char *fix)
{
    json_array_append_new(
        self, json_pack("{sbsbssss}", "weak", kind == ENGINE_WEAK, "unprepared",
                        kind == ENGINE_UNPREPARED, "what", what, "fix", fix));
}

static void respond(json_t *out, const char *result, const char *why,
                    int64_t began_us)
{
    char *line;

    json_object_set_new(out, "result", json_string(result));
    json_object_set_new(out, "why", json_string(why));
    json_object_set_new(out, "us", json_integer(mono_us() - began_us));
    line = json_dumps(out, JSON_COMPACT);
    puts(line);
    fflush(stdout);
    free(line);
}

int main(int argc, char **argv)
{
    static const char *const results[] = {"DONE", "NO_ROW", "UNKNOWN"};
    struct engine_settings s = {0};
    struct engine *e;
    char line[65536];

    if (argc != 6) {
        fprintf(stderr, "usage: rig-engine DATABASE PROCESS HOST HOLD_MS "
                        "ACCEPT_WEAK\n");
        return EXIT_USAGE;
    }
    s = (struct engine_settings){.database = argv[1],
                                 .process = argv[2],
                                 .host = argv[3],
                                 .hold_ms = strtoll(argv[4], NULL, 10),
                                 .accept_weak = *argv[5] == '1'};
    e = engine_postgres.open(&s);
    while (fgets(line, sizeof line, stdin)) {
        json_t *in = json_loads(line, 0, NULL), *out = json_object();
        const char *name = text(in, "call");
        char why[ENGINE_WHY_BYTES] = "";
        int64_t began_us = mono_us();

        if (strcmp(name, "check") == 0) {
            json_t *found = json_array();
            gr_rc rc = engine_check(&s, finding, found, why);

            json_object_set_new(out, "found", found);
            respond(out, rc == GR_OK ? "DONE" : "UNKNOWN", why, began_us);
        } else {
            enum engine_result r = call(e, name, in, out, why);

            respond(out, results[r], why, began_us);
        }
        json_decref(in);
        json_decref(out);
    }
    engine_postgres.close(e);
    return 0;
}
