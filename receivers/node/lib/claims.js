// Stores whose memory cannot share a transaction with the work: an event is claimed, processed, and
// then stored as processed. A claim that nobody ends (the process died) ends by itself.
'use strict';

const crypto = require('node:crypto');
const {NOTHING, decide, numbered, plain} = require('./decide');

const KEEP_S = 40 * 86400;

class Busy extends Error {
  constructor(id) {
    super(`event ${id} is being processed`);
    this.name = 'Busy';
  }
}

class ClaimStore {
  async process(event, nowS, order, handle) {
    const token = crypto.randomBytes(8).toString('hex');
    const counts = order && numbered(event);
    const {first, facts} = await this.claim(event, token, counts, nowS);
    const {check, floor, announced} = counts ? decide(event, first, facts) :
      {check: plain(first), floor: null, announced: false};
    if (first) {
      try {
        await handle(event, check, null);
      } catch (error) {
        await this.release(event, token);
        throw error;
      }
    }
    await this.finish(event, counts, floor, announced, nowS);
    return check;
  }
}

/* The first entries of a map for which `old` is true. */
function oldest(map, old) {
  const found = [];
  for (const [key, value] of map) {
    if (!old(value)) break;
    found.push(key);
  }
  return found;
}

class MemoryStore extends ClaimStore {
  constructor({keepS = KEEP_S} = {}) {
    super();
    this.keepS = keepS;
    this.ids = new Map(); // when; in order of arrival
    this.claimed = new Set();
    this.spaces = new Map(); // by workspace: series → numbers
  }

  space(event) {
    if (!this.spaces.has(event.workspace)) this.spaces.set(event.workspace, new Map());
    const all = this.spaces.get(event.workspace);
    if (!all.has(event.series))
      all.set(event.series, {floor: null, announced: false, highest: null,
        arrived: new Map(), // number → {id, at}, in order of arrival
        missing: new Map()}); // number → since
    return all.get(event.series);
  }

  async claim(event, token, counts) {
    if (this.claimed.has(event.id)) throw new Busy(event.id);
    const first = !this.ids.has(event.id);
    if (first) this.claimed.add(event.id);
    return {first, facts: counts ? this.facts(event) : NOTHING};
  }

  facts({workspace, series, sequence, previous}) {
    const space = this.space({workspace, series});
    const others = [...this.spaces.get(workspace)].filter(([s]) => s !== series)
      .map(([, s]) => s);
    let below = null;
    if (!space.arrived.has(previous))
      for (const n of space.arrived.keys()) if (n < previous && n > (below ?? 0)) below = n;
    return {
      floor: space.floor, announced: space.announced,
      earlier: others.some((s) => s.floor !== null),
      holder: space.arrived.get(sequence)?.id ?? null, highest: space.highest,
      hasPrevious: space.arrived.has(previous), below, named: space.missing.has(sequence),
      inOther: others.some((s) => s.arrived.has(previous)),
    };
  }

  async release(event) {
    this.claimed.delete(event.id);
  }

  async finish(event, counts, floor, announced, nowS) {
    this.claimed.delete(event.id);
    if (!this.ids.has(event.id)) this.ids.set(event.id, nowS);
    if (counts) this.number(this.space(event), event, floor, announced, nowS);
    await this.forget(nowS - this.keepS);
  }

  number(space, {id, sequence, previous}, floor, announced, at) {
    space.floor ??= floor;
    space.announced ||= announced;
    if (!space.arrived.has(sequence)) space.arrived.set(sequence, {id, at});
    space.missing.delete(sequence);
    space.highest = Math.max(sequence, space.highest ?? 0);
    if (space.floor !== null && previous > space.floor && !space.arrived.has(previous) &&
        !space.missing.has(previous))
      space.missing.set(previous, at);
  }

  async missing(beforeS) {
    const found = [];
    for (const [workspace, all] of this.spaces)
      for (const [series, space] of all)
        for (const [number, since] of space.missing)
          if (since <= beforeS)
            found.push({series, workspace, number, since, unsure: [...all].some(
              ([s, other]) => s !== series && other.arrived.has(number))});
    return found.sort((a, b) => a.since - b.since || a.number - b.number);
  }

  /* Entries are in order of arrival, so it ends at the first one that is young enough. */
  async forget(beforeS) {
    for (const id of oldest(this.ids, (at) => at < beforeS)) this.ids.delete(id);
    for (const all of this.spaces.values())
      for (const space of all.values()) {
        const old = oldest(space.arrived, ({at}) => at < beforeS);
        for (const n of old) space.arrived.delete(n);
        if (!old.length || space.floor === null) continue;
        for (const n of old) space.floor = Math.max(space.floor, n);
        for (const n of [...space.missing.keys()])
          if (n <= space.floor) space.missing.delete(n);
      }
  }
}

module.exports = {Busy, ClaimStore, KEEP_S, MemoryStore};
