/* engine_check: says whether the engine is prepared, and whether its settings can lose a commit that it has acknowledged. */
#ifndef REPLICATION_ENGINE_CHECK_H
#define REPLICATION_ENGINE_CHECK_H

#include "engine.h"

/* Settings as the server shows them; NULL: it has no such setting. */
struct engine_durability {
    const char *fsync, *full_page_writes, *synchronous_standby_names;
    const char *synchronous_commit; /* in a transaction of ours */
    /* Standbys that are connected, and of them those that commits wait for; -1: this role may not see it. */
    int64_t standbys, synchronous;
};

enum engine_finding_kind {
    ENGINE_NOTE, /* nothing is lost; it may work later, or cannot be judged */
    ENGINE_WEAK, /* an acknowledged commit can be lost; only accept_weak permits it */
    ENGINE_UNPREPARED, /* no call can succeed: the tables are missing, or this role may not use them */
};

/* Called for each thing that was found: one sentence, and what to do ("": nothing). */
typedef void engine_finding(void *self, enum engine_finding_kind kind,
                            const char *what, const char *fix);

/* Pure. Reports all that can lose a commit, and what cannot be judged. */
void engine_judge(const struct engine_durability *d, engine_finding *found,
                  void *self);
/* Of the settings alone: why an acknowledged commit can be lost (static); NULL: it cannot. Pure. */
const char *engine_weakness(const struct engine_durability *d);

/* Connects, and reports what engine_judge() finds, and tables that are missing. It writes nothing. GR_REFUSE: it could not read them, and `why` says it. For
 * `grapnel check`, `grapnel replicate status` and each start. */
GR_MUST_CHECK gr_rc engine_check(const struct engine_settings *s,
                                 engine_finding *found, void *self,
                                 char why[ENGINE_WHY_BYTES]);

#endif
