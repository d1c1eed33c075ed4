/* commands: all declarations. */
#ifndef COMMANDS_COMMANDS_H
#define COMMANDS_COMMANDS_H

#include "command_spec.h"

/* of each process, in the order of the document; each ends with NULL */
extern const struct command_spec *const every_commands[];
extern const struct command_spec *const ingress_commands[];
extern const struct command_spec *const outbox_commands[];
extern const struct command_spec *const reconcile_commands[];
extern const struct command_spec *const sequencer_commands[];
extern const struct command_spec *const deliverer_commands[];
extern const struct command_spec *const dlqd_commands[];
extern const struct command_spec *const console_commands[];
/* HTTP only: no process has them as control commands */
extern const struct command_spec *const api_commands[];

/* All of them, with a title for people (NULL: HTTP only); ends with NULL commands. */
struct command_list {
    const char *title;
    const struct command_spec *const *commands;
};
extern const struct command_list command_lists[];

/* Known reasons of dead letters; ends with NULL. */
extern const char *const dead_letter_reasons[];

/* Every process. */
extern const struct command_spec command_ping, command_status, command_health,
    command_names, command_check, command_reload, command_backup,
    command_handover, command_verify, command_audit, command_audit_verify,
    command_audit_head, command_jobs, command_job, command_job_cancel,
    command_erase;

/* ingress */
extern const struct command_spec command_request_trace, command_find,
    command_request, command_rejects, command_reject, command_reject_explain,
    command_archive, command_resend, command_replay;

/* outbox */
extern const struct command_spec command_relays;

/* reconcile */
extern const struct command_spec command_reconciled, command_reconcile;

/* sequencer */
extern const struct command_spec command_event, command_events,
    command_deliveries, command_endpoint, command_endpoint_stats,
    command_endpoint_plan, command_routing, command_event_routing,
    command_endpoints, command_endpoint_pause, command_endpoint_resume,
    command_endpoint_create, command_endpoint_change, command_endpoint_rotate,
    command_endpoint_delete, command_endpoint_secrets, command_temporary_create,
    command_temporary_delete, command_retry, command_abandon, command_facts,
    command_release, command_gaps, command_alert_event, command_close_gap,
    command_listed, command_workspace, command_workspaces,
    command_workspace_erase, command_tokens, command_token_create,
    command_token_revoke, command_token_check, command_tenant_check;

/* sequencer, for consumers of pull endpoints */
extern const struct command_spec command_pull_want;

/* sequencer, for operational events, which no ingress has */
extern const struct command_spec command_operational_archive,
    command_operational_request, command_operational_resend;

/* event types */
extern const struct command_spec command_event_types, command_event_type,
    command_event_type_create, command_event_type_change,
    command_event_type_delete, command_event_catalogue;
extern const struct command_spec command_recent_events;

/* deliverer */
extern const struct command_spec command_attempts, command_recent_attempts,
    command_test, command_throttle, command_pull_take, command_pull_ack,
    command_pull_retry, command_pull_dead;

/* dlqd */
extern const struct command_spec command_dlq, command_dlq_show,
    command_dlq_retry, command_dlq_retry_all, command_dlq_resolve_all,
    command_dlq_discard_all, command_dlq_bulk, command_dlq_count,
    command_dlq_stats, command_dlq_resolve, command_dlq_discard,
    command_dlq_new_dead_letters, command_dead_letter_trace;

/* console */
extern const struct command_spec command_console_trace, command_alerts,
    command_alerts_test, command_silences, command_alert_silence,
    command_alert_unsilence, command_series, command_sources, command_source,
    command_source_test, command_endpoint_usual, command_console_link,
    command_portal_link;

/* HTTP only */
extern const struct command_spec command_endpoint_test, command_stats_read,
    command_event_read, command_payload, command_evidence, command_attempt,
    command_audit_list, command_audit_verify_all, command_stream,
    command_processes, command_process, command_replays;

#endif
