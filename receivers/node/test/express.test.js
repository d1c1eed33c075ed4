// The middleware on a server of node:http: what it responds, and what it logs.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');
const {MemoryStore, Receiver, grapnel} = require('../lib');
const {KEY, NOW, delivery} = require('./vectors');

function ask(port, [headers, body], method = 'POST') {
  return new Promise((resolve, reject) => {
    const flat = [...headers, 'content-length', String(body.length)];
    const pairs = {};
    for (let i = 0; i < flat.length; i += 2) pairs[flat[i]] = flat[i + 1];
    const request = http.request({port, method, path: '/hooks', headers: pairs}, (response) => {
      response.resume();
      response.on('end', () => resolve(
        {status: response.statusCode, retry: response.headers['retry-after']}));
    });
    request.on('error', reject);
    request.end(method === 'GET' ? undefined : body);
  });
}

async function serve(t, before, handle = async () => {}) {
  const logged = [], store = new MemoryStore();
  const hooks = grapnel(new Receiver([KEY], store, {clock: () => NOW}), handle,
    {maxBody: 100, log: (...words) => logged.push(words.join(' '))});
  const server = http.createServer(async (request, response) => {
    await before?.(request);
    await hooks(request, response);
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => server.close());
  return {port: server.address().port, logged, store};
}

test('responses', async (t) => {
  const events = [];
  let fails = true;
  const {port, logged} = await serve(t, null, async (event, check) => {
    if (fails) throw new Error('of the handler');
    events.push([event.id, check.result]);
  });
  const [headers, body] = delivery('in order', 0);
  assert.equal((await ask(port, [headers, body])).status, 503);
  assert.match(logged.pop(), /of the handler/);
  fails = false;
  for (let i = 0; i < 2; i++) assert.equal((await ask(port, [headers, body])).status, 204);
  assert.deepEqual(events, [[`evt_${'1'.padStart(26, '0')}`, 'ok']]);
  assert.equal((await ask(port, [headers, Buffer.concat([body, Buffer.from(' ')])])).status, 401);
  assert.match(logged.pop(), /webhook-signature is wrong/);
  assert.equal((await ask(port, [headers, Buffer.alloc(1e6)])).status, 413);
  assert.equal((await ask(port, [headers, Buffer.alloc(0)], 'GET')).status, 405);
  assert.deepEqual(logged, []);
});

test('an event that is being processed', async (t) => {
  const {port, store} = await serve(t);
  const request = delivery('in order', 0);
  await store.claim({id: `evt_${'1'.padStart(26, '0')}`}, 'of another', false);
  assert.deepEqual(await ask(port, request), {status: 503, retry: '10'});
});

test('a body that another middleware has read', async (t) => {
  const read = async (request) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts);
  };
  const raw = await serve(t, async (request) => { request.body = await read(request); });
  assert.equal((await ask(raw.port, delivery('in order', 0))).status, 204);
  const parsed = await serve(t, async (request) => {
    request.body = JSON.parse(await read(request));
  });
  assert.equal((await ask(parsed.port, delivery('in order', 0))).status, 503);
  assert.match(parsed.logged.pop(), /before express\.json/);
});
