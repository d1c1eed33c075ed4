/* Test of the sequencer's statements: each finds its rows by an index.
 * test_sequencer_store.c has more of those about deliveries. */
#include "outcomes.h"
#include "plans.h"
#include "provider_ids.h"
#include "sequencer.h"
#include "store.h"
#include "store_keys.h"
#include "store_lanes.h"
#include "store_order.h"
#include "store_search.h"

static const char *const allowed[] = {
    /* Small tables, at a start. */
    "FROM endpoints", "FROM deliverers", "FROM key_generations",
    "keys FROM recent_keys", "FROM ingresses", "FROM subscribers", "sum(held)",
    /* What one event has, and what an operator asks for. */
    "ORDER BY name", "FROM attempts WHERE event", "FROM halts h",
    /* Bounded inside. */
    "SELECT status, count(*), min(event), min(", NULL};

static struct {
    struct store *store;
    struct deliveries *deliveries;
    struct store_order *order;
    struct store_lanes *lanes;
    struct store_keys *keys;
    struct store_search *search;
    struct provider_ids *provider_ids;
    struct outcomes *outcomes;
} all;

static struct sequencer q;

static void open_all(struct db *db)
{
    all.store = store_open(db);
    all.deliveries = deliveries_open(db);
    all.order = store_order_open(db);
    all.lanes = store_lanes_open(db);
    all.keys = store_keys_open(db);
    all.search = store_search_open(db);
    all.provider_ids = provider_ids_open(db);
    q.d.db = db;
    all.outcomes = outcomes_open(&q);
}

int main(void)
{
    int failed = plans_main(&sequencer_schema, open_all, allowed);

    outcomes_close(all.outcomes);
    provider_ids_close(all.provider_ids);
    store_search_close(all.search);
    store_keys_close(all.keys);
    store_lanes_close(all.lanes);
    store_order_close(all.order);
    deliveries_close(all.deliveries);
    store_close(all.store);
    return failed;
}
