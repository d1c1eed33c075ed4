// A store in Redis. Its keys have one prefix with braces, so that a cluster keeps them together:
//   PREFIX:id:ID                   "done", or the token of a claim
//   PREFIX:series:WORKSPACE        the set of its series
//   PREFIX:state:SERIES:WORKSPACE  hash: floor, announced
//   PREFIX:numbers:…               sorted set of numbers, by number
//   PREFIX:ids:…                   hash: number → id
//   PREFIX:times:…                 sorted set of numbers, by time
//   PREFIX:missing:…               hash: number → since
//   PREFIX:spaces                  the set of SERIES:WORKSPACE
// They expire when nothing has arrived for `keepS`. The library for Python has the same keys.
'use strict';

const {Busy, ClaimStore, KEEP_S} = require('./claims');
const {NOTHING} = require('./decide');

const LEASE_S = 60;
const CLAIM = `
local p, id, token, lease, series, workspace, sequence, previous = unpack(ARGV)
local new = redis.call('SET', p..':id:'..id, token, 'NX', 'EX', lease)
if not new and redis.call('GET', p..':id:'..id) ~= 'done' then return {'busy'} end
local out = {new and 'new' or 'done'}
if series == '' then return out end
local here = series..':'..workspace
local state = redis.call('HMGET', p..':state:'..here, 'floor', 'announced')
local numbers = p..':numbers:'..here
local top = redis.call('ZREVRANGE', numbers, 0, 0)
local below = redis.call('ZREVRANGEBYSCORE', numbers, '('..previous, '-inf', 'LIMIT', 0, 1)
local earlier, other = '', ''
for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
  if s ~= series then
    if redis.call('HGET', p..':state:'..s..':'..workspace, 'floor') then earlier = '1' end
    if redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, previous) then other = '1' end
  end
end
local holder = redis.call('HGET', p..':ids:'..here, sequence)
for _, v in ipairs({state[1] or '', state[2] or '', earlier, holder or '', top[1] or '',
    redis.call('ZSCORE', numbers, previous) and '1' or '', below[1] or '',
    redis.call('HEXISTS', p..':missing:'..here, sequence) == 1 and '1' or '', other}) do
  table.insert(out, v)
end
return out
`;
const FINISH = `
local p, id, now, keep, series, workspace, sequence, previous, floor, announced = unpack(ARGV)
redis.call('SET', p..':id:'..id, 'done', 'EX', keep)
if series == '' then return 0 end
local here = series..':'..workspace
local state, numbers, ids = p..':state:'..here, p..':numbers:'..here, p..':ids:'..here
local times, missing = p..':times:'..here, p..':missing:'..here
if floor ~= '' then redis.call('HSETNX', state, 'floor', floor) end
if announced == '1' then redis.call('HSET', state, 'announced', 1) end
redis.call('HSETNX', state, 'known', 1)
if redis.call('HSETNX', ids, sequence, id) == 1 then
  redis.call('ZADD', numbers, sequence, sequence)
  redis.call('ZADD', times, now, sequence)
end
redis.call('HDEL', missing, sequence)
floor = tonumber(redis.call('HGET', state, 'floor') or '')
if floor and tonumber(previous) > floor and not redis.call('ZSCORE', numbers, previous) then
  redis.call('HSETNX', missing, previous, now)
end
redis.call('SADD', p..':spaces', here)
redis.call('SADD', p..':series:'..workspace, series)
for _, key in ipairs({state, numbers, ids, times, missing, p..':series:'..workspace}) do
  redis.call('EXPIRE', key, keep)
end
return 0
`;
const RELEASE = `
local key = ARGV[1]..':id:'..ARGV[2]
if redis.call('GET', key) == ARGV[3] then redis.call('DEL', key) end
return 0
`;
// number, since, "1" if another series has it; and again
const MISSING = `
local p, before, series, workspace = unpack(ARGV)
local found = redis.call('HGETALL', p..':missing:'..series..':'..workspace)
local out = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) <= tonumber(before) then
    local other = ''
    for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
      if s ~= series and redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, found[i]) then
        other = '1'
      end
    end
    table.insert(out, found[i])
    table.insert(out, found[i + 1])
    table.insert(out, other)
  end
end
return out
`;
// At most 1000 numbers at once; returns how many.
const FORGET = `
local p, before, series, workspace = unpack(ARGV)
local here = series..':'..workspace
local state, numbers, times = p..':state:'..here, p..':numbers:'..here, p..':times:'..here
if redis.call('EXISTS', state) == 0 then redis.call('SREM', p..':spaces', here) return 0 end
local old = redis.call('ZRANGEBYSCORE', times, '-inf', '('..before, 'LIMIT', 0, 1000)
local floor = tonumber(redis.call('HGET', state, 'floor') or '')
for _, n in ipairs(old) do
  redis.call('ZREM', numbers, n)
  redis.call('ZREM', times, n)
  redis.call('HDEL', p..':ids:'..here, n)
  if floor and tonumber(n) > floor then
    floor = tonumber(n)
    redis.call('HSET', state, 'floor', n)
  end
end
if #old > 0 and floor then
  for _, n in ipairs(redis.call('HKEYS', p..':missing:'..here)) do
    if tonumber(n) <= floor then redis.call('HDEL', p..':missing:'..here, n) end
  end
end
return #old
`;
const SPACES = "return redis.call('SMEMBERS', ARGV[1]..':spaces')";

const int = (text) => (text === '' ? null : Number(text));

class RedisStore extends ClaimStore {
  constructor(client, {prefix = '{grapnel}', keepS = KEEP_S, leaseS = LEASE_S} = {}) {
    super();
    Object.assign(this, {client, prefix, keepS, leaseS});
  }

  /* node-redis has sendCommand(), ioredis has call(). A key argument tells a cluster which node has
   * all of them. */
  async eval(script, ...values) {
    const command = ['EVAL', script, '1', `${this.prefix}:spaces`, this.prefix,
      ...values.map(String)];
    return typeof this.client.call === 'function' ? this.client.call(...command) :
      this.client.sendCommand(command);
  }

  numbersOf(event, counts) {
    return counts ? [event.series, event.workspace, event.sequence, event.previous] :
      ['', '', '', ''];
  }

  async claim(event, token, counts) {
    const [state, floor, announced, earlier, holder, highest, hasPrevious, below, named, inOther] =
      await this.eval(CLAIM, event.id, token, this.leaseS, ...this.numbersOf(event, counts));
    if (state === 'busy') throw new Busy(event.id);
    const first = state === 'new';
    if (!counts) return {first, facts: NOTHING};
    return {first, facts: {floor: int(floor), announced: announced === '1',
      earlier: earlier === '1', holder: holder || null, highest: int(highest),
      hasPrevious: hasPrevious === '1', below: int(below), named: named === '1',
      inOther: inOther === '1'}};
  }

  async release(event, token) {
    await this.eval(RELEASE, event.id, token);
  }

  async finish(event, counts, floor, announced, nowS) {
    await this.eval(FINISH, event.id, nowS, this.keepS, ...this.numbersOf(event, counts),
      floor ?? '', announced ? 1 : 0);
  }

  async spaces() {
    return (await this.eval(SPACES)).map((entry) => {
      const colon = entry.indexOf(':');
      return [entry.slice(0, colon), entry.slice(colon + 1)];
    });
  }

  async missing(beforeS) {
    const found = [];
    for (const [series, workspace] of await this.spaces()) {
      const said = await this.eval(MISSING, beforeS, series, workspace);
      for (let i = 0; i < said.length; i += 3)
        found.push({series, workspace, number: Number(said[i]), since: Number(said[i + 1]),
          unsure: said[i + 2] === '1'});
    }
    return found.sort((a, b) => a.since - b.since || a.number - b.number);
  }

  /* Ids expire by themselves. */
  async forget(beforeS) {
    for (const [series, workspace] of await this.spaces())
      while (Number(await this.eval(FORGET, beforeS, series, workspace)) === 1000);
  }
}

module.exports = {RedisStore};
