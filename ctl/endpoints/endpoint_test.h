/* endpoint_test: how the commands of this folder send test requests to an endpoint: its settings with
 * their secrets, and the question to a deliverer. For `endpoints test` and `drill`. */
#ifndef CTL_ENDPOINT_TEST_H
#define CTL_ENDPOINT_TEST_H

#include "ctl.h"

/* The settings of an endpoint, from the file or, for one that was made at run time, from the
 * sequencer; then they are *managed, which the caller frees with endpoint_document_free().
 * NULL: the error was printed, and *code is the exit code. */
const struct endpoint_settings *
tested_endpoint(struct ctl *c, const char *name,
                struct endpoint_settings **managed, int *code);
/* The arguments of the question `test`, the caller's; they hold secrets: endpoint_test_wipe().
 * `drill` is taken over; NULL: the usual test. */
json_t *endpoint_test_args(const struct endpoint_settings *e, json_t *drill);
void endpoint_test_wipe(json_t *args);
/* How long the reply may take. */
int endpoint_test_ms(const struct endpoint_settings *e);

#endif
