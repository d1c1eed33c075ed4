/* metrics_frame: reads one metrics frame of another process (docs/METRICS.md describes it).
 * The bytes may come from anywhere. */
#ifndef METRICS_METRICS_FRAME_H
#define METRICS_METRICS_FRAME_H

#include "alloc.h"
#include <jansson.h>

/* Whether the frame claims no more objects than it has bytes, and ends where it says. Only
 * then may the msgpack library parse it, which allocates as much as a frame claims. */
bool metrics_frame_sound(struct bytes frame);
/* The frame as JSON, owned by the caller; NULL: it is not a metrics frame. */
json_t *metrics_frame_json(struct bytes frame);

#endif
