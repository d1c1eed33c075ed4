/* show: what this process answers on its control socket. */
#include "show.h"
#include "acts.h"
#include "replay.h"
#include "sequencer.h"

const struct control_command sequencer_commands[] = {
    {"trace", "id", "one event: what it is and how its deliveries stand",
     trace_event},
    {"events",
     "source type workspace endpoint status id since_ms until_ms limit before",
     "newest first (id: the provider's, of the event or its delivery): "
     "{\"events\":[…],\"next\":…}; go on with \"before\": next "
     "until that is null",
     events_search},
    {"deliveries",
     "workspace source type endpoint status since_ms until_ms limit before",
     "newest first: {\"deliveries\":[…],\"next\":…}; go on with \"before\": "
     "next until that is null",
     deliveries_search},
    {"endpoints", "name",
     "state, home, what is out, waits and is parked; all without a name",
     endpoints_show},
    {"endpoint_pause", "name who", "try nothing until it is resumed",
     endpoints_pause},
    {"endpoint_resume", "name who", "of one that is paused or disabled",
     endpoints_resume},
    {"retry", "event endpoint who",
     "try open deliveries of an event now, their budgets unchanged: "
     "{\"id\",\"deliveries\":[{\"endpoint\",\"status\",\"accepted\","
     "\"result\",\"why\",\"attempts\",\"deliverer\"}]}",
     acts_retry},
    {"abandon", "event endpoint note who",
     "give an open delivery up: a dead letter with the reason abandoned",
     acts_abandon},
    {"facts", "ids endpoint",
     "status, source, type, workspace and parts of each of these events, the "
     "reasons of its dead deliveries, and whether the endpoint wants it",
     replay_facts},
    {"release", "event who", "let a suppressed repeat through", show_release},
    {"gaps", "open source workspace since_ms until_ms limit before",
     "numbers that are or were missing, newest first: "
     "{\"gaps\":[…],\"next\":…}; go on with \"before\": next until that is "
     "null",
     show_gaps},
    {"close_gap", "id note who", "wait no longer for what is missing",
     show_close_gap},
    {"workspaces", "workspace limit", "numbers, open gaps, what is held back",
     show_workspaces},
    {0},
};
