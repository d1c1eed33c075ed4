/* metrics_frame: a daemon's numbers as frames, as JSON, as Markdown. */
#include "clock.h"
#include "metrics_parts.h"
#include <czmq.h>
#include <msgpack.h>

/* Beyond this size another frame with the same time is begun. */
enum { FRAME_BYTES = 256 * 1024 };

static const char *const kind_names[] = {[METRIC_COUNTER] = "counter",
                                         [METRIC_GAUGE] = "gauge",
                                         [METRIC_HISTOGRAM] = "histogram"};

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

static void put_about(msgpack_packer *pk, const char *name,
                      enum metric_kind kind, const char *unit, const char *help)
{
    put_text(pk, name);
    msgpack_pack_array(pk, 3);
    put_text(pk, kind_names[kind]);
    put_text(pk, unit);
    put_text(pk, help);
}

/* ---- series ---- */

static int label_count(const struct series *s)
{
    int n = 0;

    while (n < METRIC_LABELS_MAX && s->labels[n])
        n++;
    return n;
}

static void put_value(msgpack_packer *pk, const struct series *s, int64_t v)
{
    if (s->family->per > 1)
        msgpack_pack_double(pk, series_scaled(s, v));
    else
        msgpack_pack_int64(pk, v);
}

static void put_histogram(msgpack_packer *pk, const struct series *s)
{
    put_text(pk, "le");
    msgpack_pack_array(pk, (size_t)s->bounds);
    for (int i = 0; i < s->bounds; i++)
        put_value(pk, s, s->family->bounds[i]);
    put_text(pk, "counts");
    msgpack_pack_array(pk, (size_t)s->bounds + 1);
    for (int i = 0; i <= s->bounds; i++)
        msgpack_pack_int64(pk, s->cells[i]);
    put_text(pk, "sum");
    put_value(pk, s, s->cells[s->bounds + 1]);
}

static void put_series(msgpack_packer *pk, const struct series *s)
{
    bool histogram = s->family->kind == METRIC_HISTOGRAM;
    int n = label_count(s);

    msgpack_pack_map(pk, histogram ? 5 : 3);
    put_text(pk, "name");
    put_text(pk, s->family->name);
    put_text(pk, "labels");
    msgpack_pack_map(pk, (size_t)n);
    for (int i = 0; i < n; i++) {
        put_text(pk, s->family->labels[i]);
        put_text(pk, s->labels[i]);
    }
    if (histogram) {
        put_histogram(pk, s);
    } else {
        put_text(pk, "value");
        put_value(pk, s, s->cells[0]);
    }
}

/* ---- a frame ---- */

static void put_head(msgpack_packer *pk, const struct metrics *m,
                     int64_t time_ms)
{
    msgpack_pack_map(pk, 9);
    put_text(pk, "v");
    msgpack_pack_int(pk, 1);
    put_text(pk, "process");
    put_text(pk, m->name);
    put_text(pk, "kind");
    put_text(pk, m->kind);
    put_text(pk, "epoch");
    msgpack_pack_uint64(pk, m->epoch);
    put_text(pk, "started_ms");
    msgpack_pack_int64(pk, m->started_ms);
    put_text(pk, "time_ms");
    msgpack_pack_int64(pk, time_ms);
}

static void put_numbers(msgpack_packer *pk, const struct metrics *m)
{
    put_text(pk, "metrics");
    msgpack_pack_map(pk, m->number_count);
    for (size_t i = 0; i < m->number_count; i++) {
        put_text(pk, m->tables.numbers[i].name);
        msgpack_pack_int64(pk, m->tables.values[i]);
    }
}

static void put_abouts(msgpack_packer *pk, const struct metrics *m)
{
    put_text(pk, "about");
    msgpack_pack_map(pk, m->number_count + m->family_count);
    for (size_t i = 0; i < m->number_count; i++) {
        const struct metric *t = &m->tables.numbers[i];

        put_about(pk, t->name, t->kind, t->unit, t->help);
    }
    for (size_t i = 0; i < m->family_count; i++) {
        const struct metric_family *f = m->families[i].is;

        put_about(pk, f->name, f->kind, f->unit, f->help);
    }
}

/* `count` series are in m->part, packed. */
static void send_frame(struct metrics *m, int64_t time_ms, size_t count)
{
    msgpack_packer pk;

    buf_reset(&m->frame);
    msgpack_packer_init(&pk, &m->frame, append);
    put_head(&pk, m, time_ms);
    put_numbers(&pk, m);
    put_abouts(&pk, m);
    put_text(&pk, "series");
    msgpack_pack_array(&pk, count);
    buf_put(&m->frame, m->part.data, m->part.len);
    if (!m->frame.failed)
        zsock_send(m->pub, "b", m->frame.data, m->frame.len);
    buf_reset(&m->part);
}

void metrics_publish(struct metrics *m)
{
    int64_t time_ms = now_ms();
    msgpack_packer pk;
    size_t count = 0;

    buf_reset(&m->part);
    msgpack_packer_init(&pk, &m->part, append);
    for (size_t i = 0; i < m->family_count; i++)
        for (struct series *s = m->families[i].first; s; s = s->next) {
            if (!series_shown(s))
                continue;
            put_series(&pk, s);
            count++;
            if (m->part.len < FRAME_BYTES)
                continue;
            send_frame(m, time_ms, count);
            count = 0;
        }
    send_frame(m, time_ms, count);
}

/* ---- JSON ---- */

json_t *metrics_json(const struct metrics *m)
{
    json_t *out = json_object();

    for (size_t i = 0; i < m->number_count; i++)
        json_object_set_new(out, m->tables.numbers[i].name,
                            json_integer(m->tables.values[i]));
    return out;
}

json_t *metrics_rates_json(const struct metrics *m, int64_t mono_now_ms)
{
    int past = m->past[1].mono_ms ? 1 : 0;
    int64_t since_ms = m->past[past].mono_ms;
    json_t *out = json_object();

    for (size_t i = 0;
         since_ms && since_ms < mono_now_ms && i < m->number_count; i++)
        if (m->tables.numbers[i].kind == METRIC_COUNTER)
            json_object_set_new(
                out, m->tables.numbers[i].name,
                json_real(
                    (double)(m->tables.values[i] - m->past[past].values[i]) *
                    1000 / (double)(mono_now_ms - since_ms)));
    return out;
}

static json_t *number(const struct series *s, int64_t v)
{
    return s->family->per > 1 ? json_real(series_scaled(s, v))
                              : json_integer(v);
}

static json_t *series_json(const struct series *s)
{
    json_t *out = json_pack("{s:s}", "name", s->family->name);
    json_t *labels = json_object(), *counts = json_array();

    for (int i = 0; i < label_count(s); i++)
        json_object_set_new(labels, s->family->labels[i],
                            json_string(s->labels[i]));
    json_object_set_new(out, "labels", labels);
    for (int i = 0; i <= s->bounds; i++)
        json_array_append_new(counts, json_integer(s->cells[i]));
    if (s->family->kind == METRIC_HISTOGRAM) {
        json_object_set(out, "counts", counts);
        json_object_set_new(out, "sum", number(s, s->cells[s->bounds + 1]));
    } else {
        json_object_set_new(out, "value", number(s, s->cells[0]));
    }
    json_decref(counts);
    return out;
}

json_t *metrics_series_json(struct metrics *m)
{
    json_t *out = json_array();

    for (size_t i = 0; i < m->family_count; i++)
        for (struct series *s = m->families[i].first; s; s = s->next)
            if (series_shown(s))
                json_array_append_new(out, series_json(s));
    return out;
}

/* ---- Markdown ---- */

static void document_family(const struct metric_family *f, struct buf *out)
{
    buf_printf(out, "| `%s` | %s | %s | ", f->name, kind_names[f->kind],
               f->unit);
    for (int i = 0; i < METRIC_LABELS_MAX && f->labels[i]; i++)
        buf_printf(out, "%s`%s`", i ? " " : "", f->labels[i]);
    buf_printf(out, " | %s |\n", f->help);
}

void metrics_document(const char *process, const struct metrics_tables *tables,
                      struct buf *out)
{
    buf_printf(out,
               "\n## %s\n\n| name | kind | unit | labels | |\n"
               "|---|---|---|---|---|\n",
               process);
    for (const struct metric *t = tables->numbers; t && t->name; t++)
        buf_printf(out, "| `%s` | %s | %s | | %s |\n", t->name,
                   kind_names[t->kind], t->unit, t->help);
    for (const struct metric_family *f = tables->families; f && f->name; f++)
        document_family(f, out);
    for (const struct metric_family *f = tables->common; f && f->name; f++)
        document_family(f, out);
}
