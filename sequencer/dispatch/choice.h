/* choice: how hard to try one delivery, and how early, when a route or a producer's event chose it. Routing
 * stores the choice with the delivery (`deliveries.retry_choice`); it is applied each time the
 * delivery's task is made. Only code inside the turn calls it.
 *
 * A reload that changes a retry policy ends the grants of all endpoints whose tasks may carry
 * one (grants.c), so each task is made again by the present configuration. */
#ifndef SEQUENCER_CHOICE_H
#define SEQUENCER_CHOICE_H

#include "alloc.h"
#include "settings.h"
#include <jansson.h>

struct sequencer;
struct endpoint;
struct event_row;
struct chosen_by;
struct publication;

/* The text to store, which the caller frees; NULL: nothing is chosen. The event's own choice
 * comes before the routes'. `u` and `by` may be NULL. `resent`: an operator sends the event
 * again, and a route does not let that expire. */
char *choice_text(const struct publication *u, const struct chosen_by *by,
                  int64_t received_ms, bool resent);
/* When a route's `expires_in` ends the delivery (wall); 0: never. */
int64_t choice_expires_ms(const char *text);
/* Never PRIORITY_UNCHOSEN. */
enum priority choice_priority(const char *text);
/* The policy that was chosen, which borrows from the settings; false: the endpoint's own applies. */
bool choice_apply(struct sequencer *q, const struct endpoint *e,
                  const char *text, struct retry_policy *out);
/* Append the policy for its deliverer (retry_policy of schema.h); nothing: the endpoint's own
 * applies. Logs once per configuration that a chosen policy does not exist any more. */
void choice_encode(struct sequencer *q, const struct endpoint *e,
                   const char *text, struct buf *out);
/* {"policy","max_attempts","max_duration_ms"}, or null: the endpoint's own applies. */
json_t *choice_json(struct sequencer *q, const struct endpoint *e,
                    const char *text);

#endif
