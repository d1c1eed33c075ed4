// A process that dies after its work, before the event is stored. Started by stores.test.js with
// the name of a store; as a test it does nothing.
'use strict';

const fs = require('node:fs');
const {Receiver} = require('../lib');
const {KEY, NOW, delivery, optional} = require('./vectors');

async function main(name) {
  const stores = require('./databases');
  const {store, work} = await stores[name].open(process.argv[3]);
  await new Receiver([KEY], store, {clock: () => NOW}).receive(
    ...delivery('in order', 0), async (event, check, client) => {
      await (work ? work(client) : fs.promises.appendFile(process.argv[3], 'x'));
      process.kill(process.pid, 'SIGKILL');
    });
}

if (process.argv[2] && optional('./databases')[process.argv[2]]) main(process.argv[2]);
