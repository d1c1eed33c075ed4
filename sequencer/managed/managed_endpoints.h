/* managed_endpoints: endpoints that are made, changed and deleted while the system runs,
 * beside those of grapnel.yaml. Their settings are JSON documents in sequencer.db
 * (endpoint_document.h); secrets are in the same rows, sealed (sealed.h).
 *
 * An endpoint of this kind is known everywhere by its id (`ep_` and a ULID), which is its
 * `name` in struct endpoint, on the wire, in rows and in dead letters. Ids are never used
 * again, so a new endpoint cannot get what was meant for a deleted one.
 *
 * There may be a hundred thousand, and few of them have anything to do at a time. Only those
 * in ENDPOINTS_AWAKE or ENDPOINTS_GRANTED have their settings in memory; of the others there
 * is the subscription. An endpoint gets a grant when it has a delivery, and gives it back
 * when it has had none for a minute.
 *
 * One whose settings cannot be used (a key or a retry policy is missing) is paused alone,
 * with the reason. */
#ifndef SEQUENCER_MANAGED_ENDPOINTS_H
#define SEQUENCER_MANAGED_ENDPOINTS_H

#include "db.h"
#include "endpoint.h"
#include "endpoint_document.h"
#include "row.h"
#include "store.h"

struct subject;
struct managed;
struct own_subscription;

#define MANAGED_COLUMNS(F, X) \
    F(i64, id)                \
    X(i64, version)           \
    X(text, workspace)        \
    X(text, description)      \
    X(text, settings)         \
    X(blob, secrets)          \
    X(text, secrets_key)      \
    X(i64, retire_ms)         \
    X(i64, created_ms)        \
    X(text, created_by)       \
    X(i64, changed_ms)        \
    X(i64, unused_ms)
/* Borrowed until managed_done(). */
struct managed_row {
    ROW_FIELDS(MANAGED_COLUMNS)
};

struct managed *managed_open(struct db *db);
void managed_close(struct managed *m);

/* After endpoints_load() has read the rows of `endpoints`: their subscriptions. */
void managed_load(struct sequencer *q);
void managed_unload(struct sequencer *q);
/* The configuration is another one: its keys and defaults apply to what is read from now on. */
void managed_configure(struct sequencer *q);
/* The longest attempt that any of them can have; 0: there are none. */
int64_t managed_longest_ms(const struct sequencer *q);
/* Once in a turn: gives grants back that nobody needs, drops signing secrets whose time is
 * over, and seals secrets again after a change of the key, in small steps. */
void managed_work(struct sequencer *q);

/* Reads the settings of one into memory, if they can be used; else pauses it. */
void managed_wake(struct sequencer *q, struct endpoint *e);
void managed_sleep(struct endpoint *e);
/* The slots of those that are subscribed to an event, ascending; valid until the next call. */
const size_t *managed_subscribed(struct sequencer *q, struct subject *s,
                                 size_t *count);
/* Its subscription, valid until it is changed; NULL: it cannot be read. */
const struct own_subscription *managed_subscription(const struct sequencer *q,
                                                    const struct endpoint *e);
size_t managed_count(const struct sequencer *q);
/* Whether any of them names the source of operational events. */
bool managed_operational(const struct sequencer *q);

/* ---- for the commands ---- */

/* false: there is no row. */
bool managed_read(struct sequencer *q, const struct endpoint *e,
                  struct managed_row *row);
void managed_done(struct sequencer *q);
/* The settings with their secrets, which the caller owns; NULL: `why` says why they cannot be
 * read. */
json_t *managed_document(struct sequencer *q, const struct endpoint *e,
                         const struct managed_row *row, char why[300]);
/* Whether there is a key for secrets; if not, `why` says how to make one. */
bool managed_can_seal(const struct sequencer *q, char why[300]);
/* Seals the secrets of `doc` and writes the row. Takes the
 * secrets out of `doc`. The endpoint has the new subscription, and if it is awake, the new
 * settings. false: `why` says what is wrong, and nothing was changed. */
bool managed_write(struct sequencer *q, struct endpoint *e,
                   struct managed_row *row, json_t *doc, char why[300]);
/* Later events have no delivery to it; the waiting ones become dead letters, or abandoned if it
 * is temporary. */
void managed_delete(struct sequencer *q, struct endpoint *e);
/* Deletes those that were deleted before, as state_dir/ended says (ended.h): the database was restored
 * from an older copy. */
void managed_end(struct sequencer *q);
/* Of the next `max` above the id `after`: deletes those that get only events of this workspace,
 * and takes it out of the subscriptions of others. Returns the last id that it looked at; 0:
 * there were none. */
int64_t managed_forget_workspace(struct sequencer *q, const char *workspace,
                                 int64_t after, int max);
/* Writes how long it was not used (temporary.h). */
void managed_write_unused(struct sequencer *q, const struct endpoint *e);
/* The next ones of this workspace, or of all (""), above the id `after`. Returns how many. */
int managed_page(struct sequencer *q, const char *workspace, int64_t after,
                 int max, int64_t *ids);
/* The workspace of an endpoint that was made at run time for only one, also if it was deleted since:
 * then tokens of the workspace see it, and its deliveries. The caller's; NULL: it has none. */
char *managed_workspace(struct sequencer *q, int64_t endpoint);
/* How many that belonged to the workspace were deleted after this time. */
int64_t managed_deleted_since(struct sequencer *q, const char *workspace,
                              int64_t since_ms);
/* After rows of `endpoints` were deleted. */
void managed_forget_deleted(struct sequencer *q);
int64_t managed_in_workspace(struct sequencer *q, const char *workspace,
                             int64_t max);

#endif
