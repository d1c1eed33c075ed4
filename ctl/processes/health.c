/* health: `grapnel health`: whether processes are alive, or with --ready able to work, for the
 * probes of supervisors, which wait about a second and read the exit code. */
#include "ask.h"
#include "json_text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The whole command takes less than a second, as supervisors require. */
enum { HEALTH_MS = 800 };

int run_health(struct ctl *c)
{
    size_t count = (size_t)c->parsed.arg_count, i;
    bool ready = parsed_value(&c->parsed, "--ready");
    struct question *all;
    json_t *rows, *row;
    struct stat st;
    int code = 0;

    for (i = 0; i < count; i++)
        if (!is_process_name(c->parsed.args[i]))
            return EXIT_USAGE;
    need_run_dir(c);
    all = gr_alloc((count + 1) * sizeof *all);
    for (i = 0; i < count; i++)
        all[i] = (struct question){.process = c->parsed.args[i],
                                   .what = "health"};
    ask_all(c, all, count, HEALTH_MS);
    rows = json_array();
    for (i = 0; i < count; i++) {
        const struct question *q = &all[i];

        row = json_pack("{s:s,s:b,s:b}", "process", q->process, "alive",
                        (int)!q->unreachable, "ready", 0);
        if (q->reply)
            json_object_update(row, q->reply);
        else if (q->unreachable && stat(c->run_dir, &st) != 0)
            json_object_set_new(row, "error", json_text_of(strerror(errno)));
        else if (q->unreachable)
            json_object_set_new(row, "error", json_text_of(q->why));
        else /* it responds, but is too old for this request, or its disk is full */
            json_object_set_new(row, "state", json_text_of(q->why));
        add_host(c, row);
        json_array_append_new(rows, row);
        json_decref(q->reply);
    }
    free(all);
    json_array_foreach(rows, i, row)
    {
        const char *name = text_of(row, "process"),
                   *state = text_of(row, "state"), *host = text_of(row, "host");
        bool alive = json_is_true(json_object_get(row, "alive")),
             works = json_is_true(json_object_get(row, "ready"));

        if (ready ? !works : !alive)
            code = EXIT_UNAVAILABLE;
        if (c->json)
            continue;
        if (!alive)
            complain(0, "%s: %s (run_dir is %s)", name, text_of(row, "error"),
                     c->run_dir);
        else if (ready && !works)
            complain(0, "%s: not ready: %s", name, state);
        else if (!works)
            printf("%s: alive, not ready: %s\n", name, state);
        else
            printf("%s: %s; %s waiting%s%s\n", name, state,
                   text_of(row, "waiting"), *host ? "; on " : "", host);
    }
    if (c->json)
        print_json(json_incref(rows));
    json_decref(rows);
    return code;
}
