// What an event's numbers mean: the rule of docs/RECEIVING.md. A number that an event names as its
// previous one, and that has not arrived, is missing.
'use strict';

/* What a store has about an event that is numbered, before it stores this one. `floor`: numbers up
 * to it are not checked, null: no event has set it. `announced`: an event of this series has been
 * processed. `earlier`: another series of this workspace is known. `holder`: the id of the event
 * that has this number. `below`: the highest number that is lower than `previous`. `named`: an
 * event has named this number as its previous one. `inOther`: another series has `previous`. */
const NOTHING = {floor: null, announced: false, earlier: false, holder: null, highest: null,
  hasPrevious: false, below: null, named: false, inOther: false};

/* `first`: the id is new. An event that an operator sent again is old, so it does not begin the
 * numbering. `floor` and `announced` of the result are to be stored. */
function decide(event, first, facts) {
  const begins = facts.floor === null && !event.replay;
  const floor = begins ? event.previous : facts.floor;
  const missing = floor !== null && event.previous > floor && !facts.hasPrevious;
  let result = missing ? 'gap_detected' : 'ok';
  if (!first) result = 'duplicate';
  else if (facts.earlier && !facts.announced && !event.replay) result = 'new_series';
  else if (floor === null || event.sequence <= Math.max(floor, facts.highest ?? 0))
    result = 'old_event';
  return {
    check: {
      result,
      first,
      missing: missing ? event.previous : null,
      after: missing ? Math.max(floor, facts.below ?? 0) : null,
      unsure: missing && facts.inOther,
      filled: facts.named && facts.holder === null && facts.floor !== null &&
        event.sequence > facts.floor,
      conflict: facts.holder === event.id ? null : facts.holder,
    },
    floor,
    announced: facts.announced || (first && !event.replay),
  };
}

/* Of an event without numbers, or if only duplicates matter. */
function plain(first) {
  return {result: first ? 'ok' : 'duplicate', first, missing: null, after: null, unsure: false,
    filled: false, conflict: null};
}

function numbered(event) {
  return event.series !== null && event.sequence !== null;
}

module.exports = {NOTHING, decide, numbered, plain};
