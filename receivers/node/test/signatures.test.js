// Requests that Grapnel signed are accepted, and changed ones are refused.
'use strict';

const assert = require('node:assert/strict');
const test = require('node:test');
const {Receiver, VerificationError} = require('../lib');
const {KEY, NOW, VECTORS, body, delivery, headers} = require('./vectors');

function receiver(keys, now = NOW) {
  return new Receiver(keys, undefined, {clock: () => now});
}

test('every request', async (t) => {
  for (const v of VECTORS.requests)
    await t.test(v.name, () => {
      const own = receiver(v.keys, v.now);
      const verify = () => (v.standard ? own.verifyStandard(headers(v), body(v)) :
        own.verify(headers(v), body(v)));
      if (!v.valid) return assert.throws(verify, VerificationError);
      const event = verify();
      assert.deepEqual(event.body, body(v));
      assert.equal(event.id, v.headers.find(([n]) => n.toLowerCase() === 'webhook-id')[1]);
    });
});

test('headers as pairs', () => {
  const v = VECTORS.requests.find(({name}) => name === 'values in UTF-8');
  const pairs = v.headers.map((pair) => pair.map((x) => Buffer.from(x).toString('latin1')));
  for (const given of [pairs, new Map(pairs), new Headers(pairs)]) {
    const event = receiver(v.keys, v.now).verify(given, body(v));
    assert.deepEqual([event.type, event.workspace], ['prüfung€', 'naà']);
  }
  assert.throws(() => receiver(v.keys, v.now).verify(v.headers, body(v)), /as Latin-1/);
});

test('headers of which some are lost are refused with an explanation', () => {
  const [given, data] = delivery('in order', 0);
  assert.throws(() => receiver([KEY]).verify({'webhook-id': given[1]}, data), /rawHeaders/);
});

test('fields of an event', () => {
  const v = VECTORS.requests.find(({name}) => name === 'every header');
  const e = receiver(v.keys, v.now).verify(headers(v), body(v));
  assert.equal(e.json().action, 'updated');
  assert.deepEqual(
    [e.source, e.type, e.workspace, e.attempt, e.series, e.sequence, e.previous,
      e.sourceSequence, e.gap, e.late, e.replay, e.time, e.clock],
    ['plane', 'issue.updated', 'demo', 2, '11400714819323198485', 19, 17, '6', '3-5', true,
      true, '2026-11-21T13:09:13.021Z', {'issue.created': 7, 'issue.updated': 12}]);
});

test('a wrong secret is refused at the start', () => {
  for (const [secrets, said] of [[['secret'], /begins with/], [['whsec_?'], /base64/],
    [['whsec_'], /base64/], [['whsk_AAAA'], /private key/], [['whpk_AAAA'], /32 bytes/],
    [[], /at least one/], [KEY, /list/], [[undefined], /string/]])
    assert.throws(() => receiver(secrets), said);
});

test('hundreds of signatures are refused', () => {
  const [given, data] = delivery('in order', 0);
  const at = given.indexOf('webhook-signature') + 1;
  given[at] = Array(33).fill(given[at]).join(' ');
  assert.throws(() => receiver([KEY]).verify(given, data), /more than 32/);
});

test('a body that was parsed is refused', () => {
  const [given, data] = delivery('in order', 0);
  assert.throws(() => receiver([KEY]).verify(given, JSON.parse(data)), TypeError);
  assert.throws(() => receiver([KEY]).verify(given, data.toString()), TypeError);
});
