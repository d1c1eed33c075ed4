/* silences: alert rules that notify nobody for a while.
 *
 * A silence is a row of console.db, so it survives a restart, and ends by itself. While it lasts, alerts
 * of its rule are judged, listed and reported to the sequencer (grapnel.alert events) as always. An
 * alert that fires meanwhile is notified when the silence ends, if it still fires then; one that had
 * fired before is notified when it is resolved. Dead letters of a rule with `when: dead_letter` are
 * listed, and not notified later. Part of the console's loop; the rows are written in the turn's
 * transaction. */
#ifndef CONSOLE_SILENCES_H
#define CONSOLE_SILENCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct console;
struct change;

/* From disk, also after an undo. */
void silences_load(struct console *c);
void silences_close(struct console *c);
/* Ends those that are over. Returns how long the loop may sleep, in ms; -1: there are none. */
int silences_work(struct console *c);

/* Whether this change is not to be notified. */
bool silences_mute(const struct console *c, const struct change *change);
/* Until when a rule is silent; 0: it is not. */
int64_t silences_until(const struct console *c, const char *rule);

/* The commands `silences`, `alert_silence` and `alert_unsilence`. */
json_t *silences_list(void *self, json_t *args, char why[200]);
json_t *silences_begin(void *self, json_t *args, char why[200]);
json_t *silences_end(void *self, json_t *args, char why[200]);

#endif
