/* archive: opens and closes the archive, and makes the messages of its rows. */
#include "archive.h"
#include "log.h"
#include "replay_job.h"
#include <string.h>

/* Ids ascend over restarts, too: continue after the last id on disk. */
static void resume_ids(struct archive *a)
{
    char id[EVENT_ID_BYTES + 1], replayed[EVENT_ID_BYTES + 1];
    int64_t first, last;

    archive_ends(&a->store, &first, &last, id);
    archive_replays_last_id(&a->store.replays, replayed);
    if (strcmp(replayed, id) > 0)
        memcpy(id, replayed, sizeof id);
    if (id[0] &&
        (strncmp(id, "evt_", 4) != 0 || ulid_resume(&a->ids, id + 4) != GR_OK))
        log_warn(
            NULL,
            "the newest id in the archive is not an event id of Grapnel; new "
            "ids are made from the clock alone",
            LS("event_id", id));
}

void archive_open(struct archive *a)
{
    archive_store_open(&a->store, a->daemon->db);
    links_own_log(a->daemon->links, SEQUENCER, KIND_ARCHIVED);
    resume_ids(a);
    archive_space_open(&a->space, &a->store, a->daemon->settings);
}

void archive_undo(struct archive *a)
{
    a->watermark.next = 0;
    archive_space_undo(&a->space, &a->store);
}

void archive_close(struct archive *a)
{
    archive_store_close(&a->store);
    replay_reading_free(a->replaying);
}

int64_t archive_oldest_ms(struct archive *a)
{
    int64_t now_ms = a->daemon->loop.now_ms;
    int64_t ms = archive_received_after(
        &a->store, (int64_t)links_cursor(a->daemon->links, SEQUENCER));

    return ms && ms < now_ms ? now_ms - ms : 0;
}
