/* How the sequencer's statements find their rows; test_sequencer_store.c has more
 * of those of deliveries. */
#include "plans.h"
#include "store.h"
#include "store_keys.h"
#include "store_lanes.h"
#include "store_order.h"
#include "store_search.h"

static const char *const allowed[] = {
    /* Small tables, at a start. */
    "FROM endpoints", "FROM deliverers", "FROM key_generations", "FROM doors",
    "sum(held)",
    /* What one event has, and what an operator asks for. */
    "ORDER BY e.name", "FROM attempts WHERE event", "FROM halts h",
    /* Bounded inside. */
    "SELECT status, count(*), min(event) FROM (SELECT", NULL};

static void every_statement_seeks_what_it_needs(void **state)
{
    struct store_order *order;
    struct store_lanes *lanes;
    struct store_search *search;
    struct store_keys *keys;
    struct store *store;
    struct plans p;

    (void)state;
    plans_open(&p, &sequencer_schema);
    store = store_open(p.db);
    order = store_order_open(p.db);
    lanes = store_lanes_open(p.db);
    keys = store_keys_open(p.db);
    search = store_search_open(p.db);
    plans_judge(&p, allowed);
    store_search_close(search);
    store_keys_close(keys);
    store_lanes_close(lanes);
    store_order_close(order);
    store_close(store);
    plans_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_seeks_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
