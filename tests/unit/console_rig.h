/* Frames as processes publish them, on a simulated clock, and what rules make of
 * them. */
#ifndef UNIT_CONSOLE_RIG_H
#define UNIT_CONSOLE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "../../console/rules.h"
#include <math.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };
enum { STALE = 30 * SECOND, WALL = 1000000000 };

/* ---- frames ---- */

struct frame {
    msgpack_sbuffer bytes;
    msgpack_packer pk;
};

static inline void text(struct frame *f, const char *s)
{
    msgpack_pack_str(&f->pk, strlen(s));
    msgpack_pack_str_body(&f->pk, s, strlen(s));
}

static inline void begin_with(struct frame *f, const char *process,
                              uint64_t epoch, int64_t started_ms,
                              int64_t time_ms, size_t fields)
{
    msgpack_sbuffer_init(&f->bytes);
    msgpack_packer_init(&f->pk, &f->bytes, msgpack_sbuffer_write);
    msgpack_pack_map(&f->pk, fields);
    text(f, "v");
    msgpack_pack_int(&f->pk, 1);
    text(f, "process");
    text(f, process);
    text(f, "kind");
    text(f, process);
    text(f, "epoch");
    msgpack_pack_uint64(&f->pk, epoch);
    text(f, "started_ms");
    msgpack_pack_int64(&f->pk, started_ms);
    text(f, "time_ms");
    msgpack_pack_int64(&f->pk, time_ms);
}

static inline void begin(struct frame *f, const char *process, uint64_t epoch,
                         int64_t started_ms, int64_t time_ms)
{
    begin_with(f, process, epoch, started_ms, time_ms, 9);
}

static inline void about(struct frame *f, const char *name, const char *kind)
{
    text(f, "about");
    msgpack_pack_map(&f->pk, 1);
    text(f, name);
    msgpack_pack_array(&f->pk, 3);
    text(f, kind);
    text(f, "");
    text(f, "");
}

struct rig {
    struct collector *g;
    struct tracks *tracks;
    struct settings s;
    int64_t now; /* mono */
    uint64_t epoch;
    int64_t started_ms;
};

static inline void give(struct rig *r, struct frame *f)
{
    assert_int_equal(
        collector_frame(r->g, (struct bytes){f->bytes.data, f->bytes.size},
                        r->now),
        GR_OK);
    msgpack_sbuffer_destroy(&f->bytes);
}

/* One number of one process, as it says now. */
static inline void say(struct rig *r, const char *process, const char *name,
                       const char *kind, int64_t value)
{
    struct frame f;

    begin(&f, process, r->epoch, r->started_ms, WALL + r->now);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 1);
    text(&f, name);
    msgpack_pack_int64(&f.pk, value);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 0);
    about(&f, name, kind);
    give(r, &f);
}

/* It waits for the replication database, and says only so. */
static inline void say_waiting(struct rig *r, const char *process,
                               uint64_t epoch, int64_t waits_ms)
{
    struct frame f;

    begin_with(&f, process, epoch, r->started_ms, WALL + r->now, 10);
    text(&f, "waits_ms");
    msgpack_pack_int64(&f.pk, waits_ms);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 0);
    text(&f, "about");
    msgpack_pack_map(&f.pk, 0);
    give(r, &f);
}

/* We began at 0; the processes later, unless a test says otherwise. */
static inline int setup(void **state)
{
    struct rig *r = gr_alloc(sizeof *r);

    r->g = collector_new(WALL, STALE);
    r->tracks = measurements_tracks(0);
    r->epoch = 1;
    r->started_ms = WALL + 1;
    *state = r;
    return 0;
}

static inline int teardown(void **state)
{
    struct rig *r = *state;

    collector_free(r->g);
    tracks_free(r->tracks);
    free(r);
    return 0;
}

/* The fact of this subject now; NULL: there is none. */
static inline const struct measurement *
measurement_of(struct rig *r, const struct alert_rule *rule,
               const char *subject)
{
    static struct measurement found;
    struct measurement_list l;
    bool there = false;

    tracks_take(r->tracks, r->g, HOUR, r->now);
    measurements_of(r->tracks, r->g, &r->s, rule, r->now, &l);
    for (size_t i = 0; i < l.count; i++)
        if (strcmp(l.all[i].subject, subject) == 0) {
            found = l.all[i];
            there = true;
        }
    measurement_list_fini(&l);
    return there ? &found : NULL;
}

static inline enum rule_verdict
judged(struct rig *r, const struct alert_rule *rule, const char *subject)
{
    return rule_judge(rule, measurement_of(r, rule, subject));
}

/* One series of one process; a label with a NULL value is left out. */
static inline void publish_series(struct rig *r, const char *process,
                                  const char *name, const char *kind,
                                  const char *const (*labels)[2], size_t count,
                                  int64_t value)
{
    struct frame f;

    begin(&f, process, r->epoch, r->started_ms, WALL + r->now);
    text(&f, "metrics");
    msgpack_pack_map(&f.pk, 0);
    text(&f, "series");
    msgpack_pack_array(&f.pk, 1);
    msgpack_pack_map(&f.pk, 3);
    text(&f, "name");
    text(&f, name);
    text(&f, "labels");
    msgpack_pack_map(&f.pk, count);
    for (size_t i = 0; i < count; i++) {
        text(&f, labels[i][0]);
        text(&f, labels[i][1]);
    }
    text(&f, "value");
    msgpack_pack_int64(&f.pk, value);
    about(&f, name, kind);
    give(r, &f);
}

#endif
