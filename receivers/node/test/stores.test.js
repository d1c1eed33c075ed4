// Each store: what it says of Grapnel's deliveries, and what it has stored after an error, a
// rollback, or a crash.
'use strict';

const assert = require('node:assert/strict');
const {spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const {Busy, MemoryStore, Receiver} = require('../lib');
const databases = require('./databases');
const {KEY, NOW, VECTORS, delivery} = require('./vectors');

const DIE = path.join(__dirname, 'die.js');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'grapnel-receiver-'));
let files = 0, now = NOW;
test.after(() => fs.rmSync(folder, {recursive: true}));

const nothing = async () => {};

function open(store, options) {
  return new Receiver([KEY], store, {clock: () => now, toleranceS: 1e9, ...options});
}

/* The check, and that `handle` was called if it had to be. */
async function take(receiver, scenario, number) {
  const calls = [];
  const check = await receiver.receive(...delivery(scenario, number),
    async (event, given) => { calls.push(given); });
  assert.deepEqual(calls, check.first ? [check] : []);
  return check;
}

async function results(receiver, scenario, numbers) {
  const found = [];
  for (const n of numbers) found.push((await take(receiver, scenario, n)).result);
  return found;
}

/* What all stores do. `fresh()`: an empty one, {store, client, close}. */
function all(name, fresh) {
  const check = (what, body) => test(`${name}: ${what}`, async (t) => {
    now = NOW;
    const opened = await fresh();
    try {
      await opened.store.createTables?.();
      await opened.store.createTables?.();
      await body(opened, t);
    } finally {
      await opened.close?.();
    }
  });

  for (const scenario of VECTORS.order)
    check(scenario.name, async ({store}) => {
      const receiver = open(store);
      for (const [i, step] of scenario.deliveries.entries()) {
        const {first, ...said} = await take(receiver, scenario.name, i);
        const {headers, body_base64: _, ...expected} = step;
        assert.deepEqual(said, expected, `delivery ${i}`);
        assert.equal(first, step.result !== 'duplicate');
      }
      assert.deepEqual((await receiver.missing({olderS: 0})).map(
        (m) => [m.series, m.workspace, m.number, m.unsure]), scenario.missing);
    });

  check('only deduplicates, if asked', async ({store}) => {
    const receiver = open(store, {order: false});
    assert.deepEqual(await results(receiver, 'a loss', [0, 2, 2]), ['ok', 'ok', 'duplicate']);
    assert.deepEqual(await receiver.missing({olderS: 0}), []);
  });

  check('stores nothing after an error', async ({store}) => {
    const receiver = open(store);
    const fail = async () => { throw new Error('of the handler'); };
    for (const n of [0, 0, 2])
      await assert.rejects(receiver.receive(...delivery('a loss', n), fail), /of the handler/);
    assert.deepEqual(await results(receiver, 'a loss', [0, 1]), ['ok', 'ok']);
    assert.deepEqual(await receiver.missing({olderS: 0}), []);
  });

  check('waits before it calls an event missing, and forgets', async ({store}) => {
    const receiver = open(store);
    await take(receiver, 'a loss', 0);
    now += 10;
    await take(receiver, 'a loss', 2);
    now += 100;
    const missing = {series: '1', workspace: 'w', number: 3, since: NOW + 10, unsure: false};
    assert.deepEqual(await receiver.missing({olderS: 101}), []);
    assert.deepEqual(await receiver.missing({olderS: 100}), [missing]);
    await receiver.forget({olderS: 101});
    assert.deepEqual(await receiver.missing({olderS: 0}), [missing]);
    await receiver.forget({olderS: 99}); // raises the floor to 4
    assert.deepEqual(await receiver.missing({olderS: 0}), []);
    assert.deepEqual(await results(receiver, 'a loss', [3]), ['ok']);
    assert.deepEqual(await receiver.missing({olderS: 0}), []);
  });

  check('the same event twice at once: one waits, or comes again', async ({store}) => {
    const receiver = open(store);
    let go, inside;
    const entered = new Promise((resolve) => { inside = resolve; });
    const gate = new Promise((resolve) => { go = resolve; });
    const first = receiver.receive(...delivery('in order', 0), async () => {
      inside();
      await gate;
    });
    await entered;
    const second = receiver.receive(...delivery('in order', 0), nothing).then(
      ({result}) => result, (error) => {
        assert.ok(error instanceof Busy);
        return 'busy';
      });
    await Promise.race([second, new Promise((resolve) => { setTimeout(resolve, 100); })]);
    go();
    assert.equal((await first).result, 'ok');
    assert.match(await second, /^(duplicate|busy)$/);
    assert.deepEqual(await results(receiver, 'in order', [0]), ['duplicate']);
  });
  return check;
}

const inMemory = all('memory', async () => ({store: new MemoryStore()}));
inMemory('forgets by itself', async () => {
  const store = new MemoryStore({keepS: 100});
  await take(open(store), 'a loss', 0);
  now += 101;
  await take(open(store), 'a loss', 3);
  assert.deepEqual([...store.ids.values()], [now]);
  assert.deepEqual([...store.spaces.get('w').get('1').arrived.keys()], [5]);
});
inMemory('joins no transaction', async ({store}) => {
  const receiver = open(store);
  await assert.rejects(receiver.check(receiver.verify(...delivery('in order', 0)), null),
    /process/);
});

function die(name, argument) {
  const done = spawnSync(process.execPath, [DIE, name, argument], {encoding: 'utf8'});
  assert.equal(done.signal, 'SIGKILL', done.stderr);
}

for (const [name, database] of Object.entries(databases)) {
  if (!database) {
    test(name, {skip: 'its driver or server is not there'}, () => {});
    continue;
  }
  let file;
  const check = all(name, () => {
    file = path.join(folder, `${++files}.db`);
    return database.fresh(file);
  });
  if (!database.count) { // Redis
    check('a claim of a dead process ends, and the work is done twice', async ({store}) => {
      die(name, path.join(folder, 'work'));
      const receiver = open(store);
      await assert.rejects(take(receiver, 'in order', 0), Busy);
      let said;
      while (!said)
        said = await take(receiver, 'in order', 0).catch((error) => {
          assert.ok(error instanceof Busy);
        });
      assert.equal(said.result, 'ok');
      assert.deepEqual(await results(receiver, 'in order', [0]), ['duplicate']);
    });
    continue;
  }

  check('work and event are one transaction', async ({store, client, work}) => {
    const receiver = open(store);
    const request = delivery('in order', 0);
    await assert.rejects(receiver.receive(...request, async (event, said, own) => {
      await work(own);
      throw new Error('after the work');
    }), /after the work/);
    assert.equal(await database.count(client), 0);
    for (const said of ['ok', 'duplicate'])
      assert.equal((await receiver.receive(...request, async (event, _, own) => {
        await work(own);
      })).result, said);
    assert.equal(await database.count(client), 1);
  });

  check('joins the transaction of the caller', async ({store, client, work}) => {
    const receiver = open(store);
    const event = receiver.verify(...delivery('in order', 0));
    const own = client.connect && name === 'pg' ? await client.connect() : client;
    for (const [end, said] of [['ROLLBACK', 'ok'], ['COMMIT', 'ok'], ['ROLLBACK', 'duplicate']]) {
      await database.run(own, 'BEGIN');
      assert.equal((await receiver.check(event, own)).result, said);
      if (said === 'ok') await work(own);
      await database.run(own, end);
    }
    assert.equal(await database.count(client), 1);
    if (own !== client) own.release();
  });

  if (name !== 'sqlite3') // it does not say whether a transaction is open
    check('refuses to join what is no transaction', async ({store, client}) => {
      const receiver = open(store);
      const event = receiver.verify(...delivery('in order', 0));
      if (name === 'node:sqlite' && client.isTransaction === undefined) return;
      await assert.rejects(receiver.check(event, client), TypeError);
    });

  check('a kill between work and commit leaves neither', async ({store, client}) => {
    die(name, file);
    assert.equal(await database.count(client), 0);
    assert.deepEqual(await results(open(store), 'in order', [0]), ['ok']);
  });

  check('an older event waits for the newer one', async ({store}) => {
    const receiver = open(store), scenario = 'a loss, sent again';
    await take(receiver, scenario, 0);
    let go, inside;
    const entered = new Promise((resolve) => { inside = resolve; });
    const gate = new Promise((resolve) => { go = resolve; });
    const order = [];
    const run = (n, handle) => receiver.receive(...delivery(scenario, n), handle).then(
      ({result}) => order.push(result));
    const newer = run(1, async () => {
      inside();
      await gate;
    });
    await entered;
    const older = run(3, nothing);
    await Promise.race([older, new Promise((resolve) => { setTimeout(resolve, 100); })]);
    assert.deepEqual(order, []);
    go();
    await Promise.all([newer, older]);
    assert.deepEqual(order.sort(), ['gap_detected', 'old_event']);
  });
}
