/* audit_report: the result of verifying the audit chains of all processes, for `grapnel audit verify` and
 * GET /audit/verify.
 *
 * The caller asks each process for page after page (the command `audit_verify`) and gives the replies to
 * this. Published hashes that no row has are part of the result. In memory only; the caller's. */
#ifndef DAEMON_AUDIT_REPORT_H
#define DAEMON_AUDIT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_report;

struct audit_report *audit_report_new(void);
void audit_report_free(struct audit_report *r);

/* Published hashes to look for: PROCESS:ROW:HASH or the hash alone, with commas or spaces between them.
 * Once, before pages are asked for. false: `why` says what is wrong. */
bool audit_report_heads(struct audit_report *r, const char *list,
                        char why[300]);
/* The arguments for the next page of a process. The caller's; NULL: it has no further page. */
json_t *audit_report_ask(const struct audit_report *r, const char *process);
/* Its reply; NULL: it failed, `why` says why, and `reached` is whether it responded. */
void audit_report_take(struct audit_report *r, const char *process,
                       json_t *reply, const char *why, bool reached);
/* The whole result as CONTROL.md describes it for `audit_verify_all`; the caller's. */
json_t *audit_report_json(const struct audit_report *r);
/* Published hashes that are in a chain, as they were given: the i-th; NULL after the last. */
const char *audit_report_found(const struct audit_report *r, size_t i);

#endif
