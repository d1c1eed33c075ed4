#include "metrics.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { FRAME_BYTES = 64 * 1024 };

struct metrics {
    void *pub;
    char *name;
    uint64_t run;
    int64_t interval_ms, due_ms;
    const struct metric *table;
    const int64_t *values;
    struct buf frame;
};

struct metrics *metrics_open(void *zmq, const char *run_dir, const char *name,
                             uint64_t run, int64_t interval_ms,
                             const struct metric *table, const int64_t *values)
{
    struct metrics *m = gr_alloc(sizeof *m);
    char *address = gr_printf("ipc://%s/%s.metrics", run_dir, name);
    int none = 0;

    m->name = gr_strdup(name);
    m->run = run;
    m->interval_ms = interval_ms;
    m->table = table;
    m->values = values;
    buf_init(&m->frame, FRAME_BYTES);
    m->pub = zmq_socket(zmq, ZMQ_PUB);
    if (!m->pub)
        die(EXIT_UNAVAILABLE, "no socket: %s", zmq_strerror(errno));
    zmq_setsockopt(m->pub, ZMQ_LINGER, &none, sizeof none);
    if (zmq_bind(m->pub, address) != 0)
        die(EXIT_UNAVAILABLE, "can't bind %s: %s", address,
            zmq_strerror(errno));
    free(address);
    return m;
}

void metrics_close(struct metrics *m)
{
    if (!m)
        return;
    zmq_close(m->pub);
    buf_fini(&m->frame);
    free(m->name);
    free(m);
}

static int append(void *data, const char *p, size_t n)
{
    buf_put(data, p, n);
    return 0;
}

static void put_text(msgpack_packer *pk, const char *s)
{
    msgpack_pack_str(pk, strlen(s));
    msgpack_pack_str_body(pk, s, strlen(s));
}

static size_t count(const struct metric *table)
{
    size_t n = 0;

    while (table[n].name)
        n++;
    return n;
}

static void publish(struct metrics *m)
{
    msgpack_packer pk;

    buf_reset(&m->frame);
    msgpack_packer_init(&pk, &m->frame, append);
    msgpack_pack_map(&pk, 5);
    put_text(&pk, "v");
    msgpack_pack_int(&pk, 1);
    put_text(&pk, "process");
    put_text(&pk, m->name);
    put_text(&pk, "run");
    msgpack_pack_uint64(&pk, m->run);
    put_text(&pk, "time_ms");
    msgpack_pack_int64(&pk, now_ms());
    put_text(&pk, "metrics");
    msgpack_pack_map(&pk, count(m->table));
    for (size_t i = 0; m->table[i].name; i++) {
        put_text(&pk, m->table[i].name);
        msgpack_pack_int64(&pk, m->values[i]);
    }
    if (!m->frame.failed)
        zmq_send(m->pub, m->frame.data, m->frame.len, ZMQ_DONTWAIT);
}

int metrics_tell(struct metrics *m, int64_t mono_now_ms)
{
    if (mono_now_ms >= m->due_ms) {
        publish(m);
        m->due_ms = mono_now_ms + m->interval_ms;
    }
    return (int)(m->due_ms - mono_now_ms);
}

json_t *metrics_json(const struct metrics *m)
{
    json_t *out = json_object();

    for (size_t i = 0; m->table[i].name; i++)
        json_object_set_new(out, m->table[i].name, json_integer(m->values[i]));
    return out;
}

void metrics_document(const char *process, const struct metric *table,
                      struct buf *out)
{
    buf_printf(out, "\n## %s\n\n| name | kind | unit | |\n|---|---|---|---|\n",
               process);
    for (; table->name; table++)
        buf_printf(out, "| `%s` | %s | %s | %s |\n", table->name,
                   table->kind == METRIC_COUNTER ? "counter" : "gauge",
                   table->unit, table->help);
}
