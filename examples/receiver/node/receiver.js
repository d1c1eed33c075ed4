#!/usr/bin/env node
'use strict';
/* A receiver of Grapnel's deliveries: verifies, stores once, and finds missing events.
 *
 *   WEBHOOK_SECRETS='whsec_… whpk_…' node receiver.js serve --port 3000 --state receiver.log
 *   node receiver.js missing --state receiver.log --older 3600
 *
 * No dependencies; Node 18 or later. docs/RECEIVING.md explains each step. */
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const {parseArgs} = require('util');

const TOLERANCE_S = 300;        // how far webhook-timestamp may be off
const BODY_MAX_BYTES = 1 << 20; // at least ingress.max_body of Grapnel
const KEEP_S = 40 * 86400;      // longer than Grapnel may send an event again

/* The request is not from our Grapnel, or not as it was sent. */
class Refused extends Error {}

// ---- is the request genuine and complete? ----

// Not trim(): that removes more than HTTP does.
const bare = (value) => value.replace(/^[ \t]+|[ \t]+$/g, '');

/* [[name, value], …] of rawHeaders, which has all received headers; `headers` joins some. */
function pairs(raw) {
  const all = [];
  for (let i = 0; i < raw.length; i += 2)
    all.push([raw[i].toLowerCase(), bare(raw[i + 1])]);
  return all;
}

function one(headers, name) {
  const values = headers.filter(([n]) => n === name);
  if (values.length !== 1) throw new Refused(`${values.length} headers ${name}`);
  return values[0][1];
}

/* The text that grapnel-signature signs: each header that begins with grapnel-, known or
 * not. Node reads header values as Latin-1. */
function signedText(headers, body) {
  const lines = [
    'grapnel-signature v1',
    'webhook-id ' + one(headers, 'webhook-id'),
    'webhook-timestamp ' + one(headers, 'webhook-timestamp'),
    'body-sha256 ' + crypto.createHash('sha256').update(body).digest('hex')];
  const ours = headers
    .filter(([n]) => n.startsWith('grapnel-') && n !== 'grapnel-signature')
    .map(([n, v]) => `${n} ${v}`).sort(); // by UTF-16 units, not by locale
  return Buffer.from([...lines, ...ours, ''].join('\n'), 'latin1');
}

const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex');

/* One of the secrets (whsec_: HMAC; whpk_: the public key of a whsk_) made one of the
 * signatures. timingSafeEqual takes the same time wherever the first difference is. */
function isSigned(value, text, secrets) {
  let good = false;
  for (const secret of secrets) {
    const key = Buffer.from(secret.replace(/^wh(sec|pk)_/, ''), 'base64');
    for (const word of value.split(' ')) {
      const [version, signature] = [word.split(',')[0], word.slice(word.indexOf(',') + 1)];
      const got = Buffer.from(signature, 'base64');
      if (secret.startsWith('whpk_') && version === 'v1a') {
        const publicKey = crypto.createPublicKey(
          {key: Buffer.concat([ED25519_SPKI, key]), format: 'der', type: 'spki'});
        good = crypto.verify(null, text, publicKey, got) || good;
      } else if (secret.startsWith('whsec_') && version === 'v1') {
        const want = crypto.createHmac('sha256', key).update(text).digest();
        good = (got.length === want.length && crypto.timingSafeEqual(got, want)) || good;
      }
    }
  }
  return good;
}

/* Throws Refused, or returns the headers that are signed. `headers`: pairs(). */
function verify(headers, body, secrets, nowS) {
  const time = one(headers, 'webhook-timestamp');
  if (!/^[0-9]{1,12}$/.test(time)) throw new Refused('webhook-timestamp is not a number');
  if (Math.abs(nowS - Number(time)) > TOLERANCE_S)
    throw new Refused('webhook-timestamp is too far off');
  const content = Buffer.concat(
    [Buffer.from(`${one(headers, 'webhook-id')}.${time}.`, 'latin1'), body]);
  if (!isSigned(one(headers, 'webhook-signature'), content, secrets))
    throw new Refused('webhook-signature is wrong');
  if (!isSigned(one(headers, 'grapnel-signature'), signedText(headers, body), secrets))
    throw new Refused('grapnel-signature is wrong');
  return Object.fromEntries(
    headers.filter(([n]) => n.startsWith('grapnel-') || n === 'webhook-id'));
}

// ---- process once, detect losses ----

/* The state is one file: a line for each accepted request, with id, number and
 * body, so that a line is a transaction. It is on disk before the response, and read
 * again at the start. With a database use the tables of docs/RECEIVING.md instead. */
class Store {
  constructor(path, keepS = Infinity) {
    this.ids = new Set();
    this.spaces = new Map(); // by series and workspace
    let text = fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : '';
    text = text.slice(0, text.lastIndexOf('\n') + 1); // a torn line was never answered
    const since = Date.now() / 1000 - keepS;
    const lines = text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    for (const line of lines) this.learn(line, line.at >= since);
    if (keepS === Infinity) return; // `missing` only reads
    const kept = lines.filter((line) => line.at >= since);
    const floors = [...this.spaces.values()].filter((s) => s.floor !== undefined)
      .map(({series, workspace, floor}) => ({at: Date.now() / 1000, series, workspace, floor}));
    this.replace(path, [...floors, ...kept]);
    this.file = fs.openSync(path, 'a');
  }

  /* All or nothing, also when the machine stops here. */
  replace(path, lines) {
    const file = fs.openSync(path + '.new', 'w');
    fs.writeSync(file, lines.map((line) => JSON.stringify(line) + '\n').join(''));
    fs.fsyncSync(file);
    fs.closeSync(file);
    fs.renameSync(path + '.new', path);
  }

  space(series, workspace) {
    const key = JSON.stringify([series, workspace]);
    if (!this.spaces.has(key))
      this.spaces.set(key, {
        series, workspace, floor: undefined, numbers: new Map(), named: new Set()});
    return this.spaces.get(key);
  }

  /* A line that is not kept only raises the floor: numbers up to it count as arrived. */
  learn(line, keep) {
    if (keep && line.id) this.ids.add(line.id);
    if (!line.series) return;
    const space = this.space(line.series, line.workspace);
    if (line.floor !== undefined) space.floor = line.floor;
    if (!line.id) return;
    if (!keep) space.floor = Math.max(space.floor ?? 0, line.sequence);
    else if (!space.numbers.has(line.sequence)) {
      space.numbers.set(line.sequence, {id: line.id, previous: line.previous, at: line.at});
      space.named.add(line.previous);
    }
  }

  /* Returns the words to log. */
  take(h, body, nowS) {
    const id = h['webhook-id'], fresh = !this.ids.has(id);
    const line = {at: nowS, id, type: h['grapnel-type'], workspace: h['grapnel-workspace']};
    const notes = h['grapnel-sequence'] === undefined ? [] : this.number(h, line);
    if (fresh) line.body = body.toString('base64');
    if (fresh || line.series) this.append(line);
    this.learn(line, true);
    return [fresh ? 'processed' : 'duplicate', id, ...notes];
  }

  /* A partly written line would damage the next one: then the process ends. */
  append(line) {
    const data = Buffer.from(JSON.stringify(line) + '\n');
    try {
      if (fs.writeSync(this.file, data) !== data.length) throw new Error('disk full');
      fs.fsyncSync(this.file);
    } catch (why) {
      log('failed', ...String(why).split(' '));
      process.exit(74);
    }
  }

  /* Also for a duplicate: a restored Grapnel numbers the same event anew. */
  number(h, line) {
    const space = this.space(h['grapnel-series'], line.workspace);
    const sequence = Number(h['grapnel-sequence']), previous = Number(h['grapnel-previous']);
    const notes = [line.workspace, String(sequence)];
    const known = space.numbers.get(sequence);
    if (known && known.id !== line.id) notes.push('number-of-another-event');
    if (space.floor === undefined && h['grapnel-replay'] === undefined) {
      line.floor = previous;
      notes.push(`starts-after=${previous}`);
    } else if (previous > space.floor && !space.numbers.has(previous)) {
      notes.push(`waits-for=${previous}`);
    }
    if (!known && space.named.has(sequence)) notes.push('was-waited-for');
    for (const name of ['gap', 'late', 'replay'])
      if (h['grapnel-' + name] !== undefined) notes.push(`${name}=${h['grapnel-' + name]}`);
    if (!known || line.floor !== undefined)
      Object.assign(line, {series: space.series, sequence, previous});
    return notes;
  }

  /* Numbers that an event names as its previous one, and that have not arrived. `unsure`:
   * an earlier series has this number, so a restored Grapnel may mean that event. */
  missing(beforeS) {
    const found = new Map();
    for (const {series, workspace, floor, numbers} of this.spaces.values())
      for (const {previous, at} of numbers.values()) {
        if (floor === undefined || previous <= floor || numbers.has(previous)) continue;
        const key = JSON.stringify([series, workspace, previous]);
        const unsure = [...this.spaces.values()].some((o) => o.workspace === workspace &&
          o.series !== series && o.numbers.has(previous));
        const since = Math.min(at, found.get(key)?.since ?? at);
        found.set(key, {series, workspace, number: previous, since, unsure});
      }
    return [...found.values()].filter((m) => m.since <= beforeS);
  }
}

// ---- HTTP ----

function log(...words) {
  console.log(words.map((word) => String(word).replace(/[^!-~]/g, '?')).join(' '));
}

function respond(response, status) {
  response.writeHead(status, status === 204 ? {} : {'content-length': 0});
  response.end();
}

function serve(store, secrets, port) {
  const server = http.createServer((request, response) => {
    const parts = [];
    let bytes = 0;
    request.on('data', (part) => {
      bytes += part.length;
      if (bytes <= BODY_MAX_BYTES) parts.push(part);
    });
    request.on('end', () => {
      if (bytes > BODY_MAX_BYTES) return respond(response, 413);
      const body = Buffer.concat(parts), nowS = Math.floor(Date.now() / 1000);
      try {
        const h = verify(pairs(request.rawHeaders), body, secrets, nowS);
        log(...store.take(h, body, nowS));
        respond(response, 204);
      } catch (why) {
        const refused = why instanceof Refused;
        log(refused ? 'refused' : 'failed', ...why.message.split(' '));
        respond(response, refused ? 401 : 503); // 503: our failure; Grapnel sends it again
      }
    });
  });
  server.keepAliveTimeout = 75000; // Grapnel uses a connection again for 60 s
  server.listen(port, '127.0.0.1', () => log('listens', server.address().port));
}

function main() {
  const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {port: {type: 'string', default: '3000'},
              state: {type: 'string', default: 'receiver.log'},
              older: {type: 'string', default: '3600'}}});
  if (positionals[0] === 'serve') {
    const secrets = (process.env.WEBHOOK_SECRETS || '').split(/\s+/).filter(Boolean);
    serve(new Store(values.state, KEEP_S), secrets, Number(values.port));
  } else if (positionals[0] === 'missing') {
    const found = new Store(values.state).missing(Date.now() / 1000 - Number(values.older));
    for (const {series, workspace, number, since, unsure} of found)
      log(unsure ? 'unsure' : 'missing', workspace, number, `series=${series}`, `since=${since}`);
    process.exitCode = found.some((m) => !m.unsure) ? 1 : 0;
  } else {
    console.error('usage: receiver.js serve|missing [--port N] [--state FILE] [--older SECONDS]');
    process.exitCode = 64;
  }
}

module.exports = {Refused, Store, pairs, verify};
if (require.main === module) main();
