/* metrics_command: `grapnel metrics`: prints the metrics of all processes, from their own PUB
 * sockets, without the console. */
#include "ask.h"
#include "clock.h"
#include "metrics_frame.h"
#include <czmq.h>

enum { CONNECT_MS = 2000 };

/* The next frame; NULL: none came for `wait_ms`. */
static json_t *next_frame(zsock_t *sub, int wait_ms)
{
    json_t *doc = NULL;
    zframe_t *frame;

    zsock_set_rcvtimeo(sub, wait_ms);
    while (!doc && (frame = zframe_recv(sub))) {
        doc = metrics_frame_json(
            (struct bytes){zframe_data(frame), zframe_size(frame)});
        zframe_destroy(&frame);
    }
    return doc;
}

static void print_value(const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT |
                                   JSON_REAL_PRECISION(6));

    printf(" %s\n", text ? text : "-");
    free(text);
}

static void print_frame(const struct ctl *c, json_t *frame)
{
    char *process = gr_strdup(text_of(frame, "process"));
    const char *name;
    json_t *v;
    size_t i;

    if (c->json) {
        json_dumpf(frame, stdout, JSON_COMPACT);
        printf("\n");
    } else {
        json_object_foreach(json_object_get(frame, "metrics"), name, v)
        {
            printf("%-14s %s", process, name);
            print_value(v);
        }
        json_array_foreach(json_object_get(frame, "series"), i, v)
        {
            const json_t *value = json_object_get(v, "value");
            json_t *labels = json_object_get(v, "labels"), *label;
            const char *comma = "";

            printf("%-14s %s{", process, text_of(v, "name"));
            json_object_foreach(labels, name, label)
            {
                printf("%s%s=\"%s\"", comma, name, text_of(labels, name));
                comma = ",";
            }
            printf("}%s", value ? "" : " sum");
            print_value(value ? value : json_object_get(v, "sum"));
        }
    }
    free(process);
    fflush(stdout);
}

/* Whether a frame of this process has come. */
static bool heard(json_t *frames, const char *process)
{
    json_t *f;
    size_t i;

    json_array_foreach(frames, i, f)
    {
        const char *name = json_string_value(json_object_get(f, "process"));

        if (name && process && strcmp(name, process) == 0)
            return true;
    }
    return false;
}

static int once(struct ctl *c, zsock_t *sub, const struct processes *p)
{
    int64_t end_ms = mono_ms() + 2 * metrics_interval_ms(c) + CONNECT_MS;
    int code = 0;
    json_t *frames = json_array(), *frame;
    size_t there = 0, i;

    while (there < p->count && mono_ms() < end_ms &&
           (frame = next_frame(
                sub, (int)(end_ms - mono_ms() > 0 ? end_ms - mono_ms() : 0)))) {
        there += !heard(frames,
                        json_string_value(json_object_get(frame, "process")));
        json_array_append_new(frames, frame);
    }
    for (i = 0; i < p->count; i++)
        if (!heard(frames, p->names[i]))
            code = complain_away(c, p->names[i], "it publishes no metrics");
    if (c->json)
        print_json(json_incref(frames));
    else
        json_array_foreach(frames, i, frame) print_frame(c, frame);
    json_decref(frames);
    return code;
}

int run_metrics(struct ctl *c)
{
    struct processes p;
    json_t *frame;
    zsock_t *sub;
    int code = 0;

    processes_find(c, &p);
    sub = zsock_new(ZMQ_SUB);
    zsock_set_subscribe(sub, "");
    for (size_t i = 0; i < p.count; i++)
        zsock_connect(sub, "ipc://%s/%s.metrics", c->run_dir, p.names[i]);
    if (parsed_value(&c->parsed, "--once"))
        code = once(c, sub, &p);
    else
        while ((frame = next_frame(sub, -1))) {
            print_frame(c, frame);
            json_decref(frame);
        }
    zsock_destroy(&sub);
    processes_fini(&p);
    return code;
}
