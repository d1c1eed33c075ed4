/* store_lanes: the rows of lanes and halts, for lanes.c and those who show them. All calls are
 * inside the turn's transaction. */
#ifndef SEQUENCER_STORE_LANES_H
#define SEQUENCER_STORE_LANES_H

#include "db.h"
#include "lane.h"

/* The column of the index deliveries_waiting by which it has lanes, for those that are not behind
 * another. SQLite uses it only if a query has it literally. */
#define WAITING_LANE "iif(behind, 0, lane)"

struct store_lanes;

struct store_lanes *store_lanes_open(struct db *db);
void store_lanes_close(struct store_lanes *s);

/* This ordered lane has a delivery that is open or whose copy is out. */
bool store_lane_any(struct store_lanes *s, int64_t endpoint, struct lane lane);
/* The event of the head, a delivery that is not behind another; 0: there is none. */
int64_t store_lane_first(struct store_lanes *s, int64_t endpoint,
                         struct lane lane);
/* The head, or if there is none, the first of the deliveries behind; false: the lane is empty. */
struct lane_front {
    int64_t event, route_order, next_ms;
    bool behind;
};
bool store_lane_front(struct store_lanes *s, int64_t endpoint, struct lane lane,
                      struct lane_front *front);
/* Make it the head of its lane. */
void store_lane_step_up(struct store_lanes *s, int64_t event, int64_t endpoint);
/* The next ordered lane after `lane` that has a delivery; false: no more. */
bool store_lane_after(struct store_lanes *s, int64_t endpoint, struct lane lane,
                      struct lane *next);

/* Waiting deliveries in lanes of this range, at most `max`, with workspace and ordering key of
 * their event (copied; the caller frees, also `retry_choice`, which may be NULL). Returns how many. */
struct lane_row {
    int64_t event;
    char *workspace, *ordering_key, *retry_choice;
};
int store_lane_range(struct store_lanes *s, int64_t endpoint, bool behind,
                     struct lane_range range, int max, struct lane_row *rows);
void store_lane_set(struct store_lanes *s, int64_t event, int64_t endpoint,
                    struct lane lane, bool behind);

/* ---- halts ---- */

struct halt_row {
    int64_t event, endpoint;
    struct lane lane;
    int64_t route_order, at_ms;
    const char *event_id, *workspace,
        *ordering_key; /* "": the event is deleted */
};

void store_halt(struct store_lanes *s, const struct halt_row *h);
/* false: it did not halt a lane. */
bool store_unhalt(struct store_lanes *s, int64_t event, int64_t endpoint);
void store_unhalt_all(struct store_lanes *s, int64_t endpoint);
/* The highest route order of a halting dead letter; false: the lane is not halted. */
bool store_halted(struct store_lanes *s, int64_t endpoint, struct lane lane,
                  int64_t *route_order);
/* Its event; 0: as above. */
int64_t store_halting(struct store_lanes *s, int64_t endpoint,
                      struct lane lane);
int64_t store_halt_count(struct store_lanes *s, int64_t endpoint);
/* The next endpoint above `after` that has any; 0: no more. */
int64_t store_halted_endpoint(struct store_lanes *s, int64_t after);
/* The halts of one endpoint, oldest first. */
typedef void halt_fn(void *arg, const struct halt_row *h);
void store_halts(struct store_lanes *s, int64_t endpoint, int max, halt_fn *fn,
                 void *arg);
/* Move the halts of an endpoint to other lanes. */
void store_halt_move(struct store_lanes *s, int64_t event, int64_t endpoint,
                     struct lane lane);

#endif
