/* alert_events: reports alerts that fire or end to the sequencer, which makes operational events
 * of them. A report is a row, written in the transaction that changes its alert, until the
 * sequencer has replied; a repeated report makes no second event. Deliveries never wait for it. */
#ifndef CONSOLE_ALERT_EVENTS_H
#define CONSOLE_ALERT_EVENTS_H

struct console;
struct change;
struct alert_events;

struct alert_events *alert_events_open(struct console *c);
void alert_events_close(struct alert_events *e);
/* In the transaction of the change. */
void alert_events_note(struct alert_events *e, const struct change *change);
/* In the transaction of a turn: takes the sequencer's replies. Returns the longest sleep, ms. */
int alert_events_work(struct alert_events *e);
/* Once a second, and before a report: finds the sequencer again if another process has taken its place. */
void alert_events_look(struct alert_events *e);
/* After the commit: reports the oldest one. */
void alert_events_flush(struct alert_events *e);
/* The turn was rolled back. */
void alert_events_undo(struct alert_events *e);

#endif
