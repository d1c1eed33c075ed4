/* tokens: the tokens of the HTTP API, and the commands that make, list, check and revoke them.
 *
 * Only the SHA-256 of a token is stored; its text is in the reply that makes it, and nowhere
 * else. All calls are inside the turn's transaction; nothing is kept in memory but the last
 * id. */
#ifndef SEQUENCER_TOKENS_H
#define SEQUENCER_TOKENS_H

#include "db.h"
#include <jansson.h>

struct sequencer;
struct tokens;

struct ended;

/* `ended` (ended.h) stays the caller's. */
struct tokens *tokens_open(struct db *db, const struct ended *ended);
void tokens_close(struct tokens *t);
/* Revokes those that were revoked before, as state_dir/ended says (ended.h): the database was restored
 * from an older copy. */
void tokens_end(struct sequencer *q);
/* From time to time: deletes rows of tokens that ended long ago. */
void tokens_work(struct sequencer *q);

/* Control commands. */
json_t *tokens_list(void *self, json_t *args, char why[200]);
json_t *tokens_create(void *self, json_t *args, char why[200]);
json_t *tokens_revoke(void *self, json_t *args, char why[200]);
json_t *tokens_check(void *self, json_t *args, char why[200]);

#endif
