/* metrics_frame: checks the msgpack of a metrics frame, and makes JSON of it. */
#include "metrics_frame.h"
#include "json_text.h"
#include <msgpack.h>

/* The bytes left, and how many objects they must contain. The library allocates memory
 * for as many objects as a frame claims; an object has at least one byte, so a frame
 * that claims more objects than it has bytes is malformed. */
struct walk {
    const uint8_t *p, *end;
    size_t left;
};

static bool skip(struct walk *w, size_t bytes)
{
    if ((size_t)(w->end - w->p) < bytes)
        return false;
    w->p += bytes;
    return true;
}

static bool claim(struct walk *w, size_t objects)
{
    w->left += objects;
    return w->left <= (size_t)(w->end - w->p);
}

/* A big-endian number of 1, 2 or 4 bytes. */
static bool length(struct walk *w, int bytes, size_t *n)
{
    const uint8_t *p = w->p;

    if (!skip(w, (size_t)bytes))
        return false;
    for (*n = 0; p < w->p; p++)
        *n = *n << 8 | *p;
    return true;
}

static bool walk_one(struct walk *w)
{
    uint8_t tag = *w->p++;
    size_t n = 0;

    if (tag <= 0x7f || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3)
        return true;
    if (tag <= 0x8f)
        return claim(w, 2 * (size_t)(tag & 0x0f));
    if (tag <= 0x9f)
        return claim(w, tag & 0x0f);
    if (tag <= 0xbf)
        return skip(w, tag & 0x1f);
    if (tag >= 0xcc && tag <= 0xd3) /* whole numbers of 1, 2, 4, 8 bytes */
        return skip(w, (size_t)1 << ((tag - 0xcc) & 3));
    if (tag == 0xca || tag == 0xcb)
        return skip(w, tag == 0xca ? 4 : 8);
    if (tag >= 0xd9 && tag <= 0xdb)
        return length(w, 1 << (tag - 0xd9), &n) && skip(w, n);
    if (tag == 0xdc || tag == 0xdd)
        return length(w, tag == 0xdc ? 2 : 4, &n) && claim(w, n);
    if (tag == 0xde || tag == 0xdf)
        return length(w, tag == 0xde ? 2 : 4, &n) && claim(w, 2 * n);
    return false; /* no other type is in a metrics frame */
}

bool metrics_frame_sound(struct bytes frame)
{
    const uint8_t *p = frame.p;
    struct walk w = {p, p + frame.n, 1};

    while (w.left) {
        if (w.p == w.end)
            return false;
        w.left--;
        if (!walk_one(&w))
            return false;
    }
    return w.p == w.end;
}

/* ---- as JSON ---- */

enum { DEPTH_MAX = 8 };

static json_t *value_json(const msgpack_object *o, int depth);

static json_t *map_json(const msgpack_object *o, int depth)
{
    json_t *out = json_object();

    for (uint32_t i = 0; i < o->via.map.size; i++) {
        const msgpack_object_kv *kv = &o->via.map.ptr[i];
        char key[128];

        if (kv->key.type != MSGPACK_OBJECT_STR ||
            kv->key.via.str.size >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)kv->key.via.str.size,
                 kv->key.via.str.ptr);
        json_object_set_new(out, key, value_json(&kv->val, depth + 1));
    }
    return out;
}

static json_t *value_json(const msgpack_object *o, int depth)
{
    json_t *list;

    switch (depth < DEPTH_MAX ? o->type : MSGPACK_OBJECT_NIL) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return json_integer(o->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return json_real(o->via.f64);
    case MSGPACK_OBJECT_STR:
        return json_text((struct bytes){o->via.str.ptr, o->via.str.size});
    case MSGPACK_OBJECT_ARRAY:
        list = json_array();
        for (uint32_t i = 0; i < o->via.array.size; i++)
            json_array_append_new(list,
                                  value_json(&o->via.array.ptr[i], depth + 1));
        return list;
    case MSGPACK_OBJECT_MAP:
        return map_json(o, depth);
    default:
        return json_null();
    }
}

json_t *metrics_frame_json(struct bytes frame)
{
    msgpack_unpacked got;
    json_t *out = NULL;

    if (!metrics_frame_sound(frame))
        return NULL;
    msgpack_unpacked_init(&got);
    if (msgpack_unpack_next(&got, frame.p, frame.n, NULL) ==
            MSGPACK_UNPACK_SUCCESS &&
        got.data.type == MSGPACK_OBJECT_MAP)
        out = map_json(&got.data, 0);
    msgpack_unpacked_destroy(&got);
    return out;
}
