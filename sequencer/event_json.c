#include "event_json.h"
#include "json_text.h"

const char *event_status_name(const struct event_row *e, enum event_end end)
{
    switch (e->status) {
    case EVENT_DUPLICATE:
        return "duplicate";
    case EVENT_REFUSED:
        return "refused";
    case EVENT_BUFFERED:
        return "buffered";
    case EVENT_IGNORED:
        return "ignored";
    default:
        return end == END_OPEN      ? "routed"
               : end == END_EXPIRED ? "expired"
                                    : "done";
    }
}

json_t *event_json(const struct event_row *e, enum event_end end)
{
    return json_pack(
        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:b,s:o}", "id",
        e->id, "source", json_text_of(e->source), "provider_id",
        json_text_or_null(e->provider_id), "delivery_id",
        json_text_or_null(e->delivery_id), "type", json_text_of(e->type),
        "workspace", json_text_of(e->workspace), "sequence",
        json_number_or_null((int64_t)e->sequence), "source_sequence",
        e->numbered ? json_integer(e->source_sequence) : json_null(),
        "received_at", json_time(e->received_ms), "status",
        event_status_name(e, end), "reason", json_text_or_null(e->reason),
        "duplicate_of", json_text_or_null(e->duplicate_of), "late",
        (int)e->late, "gap", json_text_or_null(e->gap));
}
