/* evidence: the story of one event as one signed file, for somebody who does not have to trust the copy.
 *
 * The file is JSON. Its last line has the signature (Ed25519) of all bytes before that line, exactly as
 * they are in the file; docs/OPERATIONS.md says what that proves. The caller asks the processes and
 * gives the replies to this module, which owns nothing of a process. */
#ifndef DAEMON_EVIDENCE_H
#define DAEMON_EVIDENCE_H

#include "alloc.h"
#include <jansson.h>
#include <openssl/types.h>

/* ---- the key pair ---- */

/* Where it is without another choice: "STATE_DIR/evidence.key"; the caller's. */
char *evidence_key_path(const char *state_dir);
/* Reads the private key. NULL: `why`, with errno ENOENT if there is no such file. The caller's. */
EVP_PKEY *evidence_key_read(const char *path, char why[200]);
/* Makes a key pair and stores it (mode 0600, owner of the folder). Whole or not at all, and never
 * over another file: if two do this at once, the first key stays. */
GR_MUST_CHECK gr_rc evidence_key_make(const char *path, char why[200]);
/* Appends the public key as PEM. */
void evidence_key_public(EVP_PKEY *key, struct buf *out);

/* A new file with these bytes, or no file. GR_REFUSE: `why`; errno is EEXIST if there is one. */
GR_MUST_CHECK gr_rc evidence_file_make(const char *path, struct bytes text,
                                       char why[200]);

/* ---- the story ---- */

/* All parts are the struct's. */
struct evidence {
    json_t *event;   /* the sequencer's reply to `trace` */
    json_t *request; /* as `show` has it; NULL: `missing` says why */
    json_t *sent;    /* the body that endpoints get, if it is another one */
    json_t *verification; /* NULL: not known any more */
    json_t *timeline, *attempts, *acts, *heads;
    json_t *missing; /* sentences: what is not in the file, and why */
};

/* Takes `event` over. */
void evidence_init(struct evidence *e, json_t *event);
void evidence_fini(struct evidence *e);
/* Whether its workspace was erased, so that nothing is left to export. */
bool evidence_is_erased(const json_t *event);
/* The ids by which operators' acts name the event: the argument `about` of the command `audit`. */
json_t *evidence_names(const struct evidence *e);
/* The archived request, with the whole body in `body` or `body_b64`; taken over. */
void evidence_take_request(struct evidence *e, json_t *request);
/* Instead: all archives replied that they do not have it. */
void evidence_request_deleted(struct evidence *e);
/* A reply to `trace` of another process than the sequencer; NULL: that knows nothing. After the request. */
void evidence_take_trace(struct evidence *e, const json_t *reply);
/* Rows of the command `audit`, newest first, of whose lists of ids only the event's own are exported; and the
 * newest hash of the chain. */
void evidence_take_acts(struct evidence *e, const json_t *rows);
void evidence_take_head(struct evidence *e, const json_t *reply);
/* Something that the file does not have; a whole sentence, which is in the file once. */
void evidence_misses(struct evidence *e, const char *fmt, ...) GR_PRINTF(2, 3);

/* Appends the whole file. `by`: who exports it. GR_REFUSE: it does not fit, or cannot be signed. */
GR_MUST_CHECK gr_rc evidence_write(const struct evidence *e, EVP_PKEY *key,
                                   const char *by, int64_t now_ms,
                                   struct buf *out);

#endif
