// Verifies the headers webhook-signature (Standard Webhooks) and grapnel-signature.
'use strict';

const crypto = require('node:crypto');

const SIGNATURES_MAX = 32; // of one header: a stranger must not make us verify hundreds
const ED25519_DER = Buffer.from('302a300506032b6570032100', 'hex'); // before the 32 bytes

class VerificationError extends Error {
  constructor(message) {
    super(message);
    this.name = 'VerificationError';
  }
}

function decode(secret, prefix) {
  const text = secret.slice(prefix.length);
  const key = Buffer.from(text, 'base64');
  if (!key.length || key.toString('base64') !== text)
    throw new TypeError(`after ${prefix} a secret has base64; this one has not`);
  return key;
}

/* Returns (version, signature in base64, content) => is it right? */
function keyOf(secret) {
  if (typeof secret !== 'string') throw new TypeError('a secret is a string');
  if (secret.startsWith('whsec_')) {
    const key = decode(secret, 'whsec_');
    return (version, signature, content) => {
      const want = Buffer.from(crypto.createHmac('sha256', key).update(content).digest('base64'));
      const got = Buffer.from(signature, 'latin1');
      return version === 'v1' && got.length === want.length && crypto.timingSafeEqual(got, want);
    };
  }
  if (secret.startsWith('whpk_')) {
    const key = decode(secret, 'whpk_');
    if (key.length !== 32)
      throw new TypeError(`a key whpk_… has 32 bytes; this one has ${key.length}`);
    const open = crypto.createPublicKey(
      {key: Buffer.concat([ED25519_DER, key]), format: 'der', type: 'spki'});
    return (version, signature, content) => {
      const got = Buffer.from(signature, 'base64');
      return version === 'v1a' && got.length === 64 && crypto.verify(null, content, open, got);
    };
  }
  if (secret.startsWith('whsk_'))
    throw new TypeError('whsk_… is the private key, which only Grapnel needs; ' +
      'give the receiver the public key, whpk_…');
  throw new TypeError('a secret begins with whsec_ or whpk_');
}

function trimmed(text) {
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}

/* [[name, value as Latin-1 text]…] of rawHeaders, pairs, or a Headers object. */
function pairsOf(headers) {
  let pairs = headers;
  if (Array.isArray(headers) && (!headers.length || typeof headers[0] === 'string')) {
    pairs = [];
    for (let i = 0; i + 1 < headers.length; i += 2) pairs.push([headers[i], headers[i + 1]]);
  } else if (typeof headers[Symbol.iterator] !== 'function') {
    throw new TypeError('headers is request.rawHeaders, a list of [name, value], or a Headers ' +
      'object; request.headers has joined or dropped what came twice');
  }
  return [...pairs].map(([name, value]) => {
    // Node decodes headers as Latin-1, and so does fetch.
    if (/[^\0-\xff]/.test(value))
      throw new TypeError('a header was decoded as UTF-8; pass it as Latin-1 text, as Node does');
    return [name.toLowerCase(), trimmed(value)];
  });
}

function one(pairs, name) {
  const values = pairs.filter(([n]) => n === name);
  if (values.length !== 1)
    throw new VerificationError(`the request has ${values.length} headers ${name}, not one`);
  return values[0][1];
}

function utf8(latin1) {
  return Buffer.from(latin1, 'latin1').toString('utf8');
}

class Verifier {
  constructor(secrets, toleranceS) {
    if (!Array.isArray(secrets) || !secrets.length)
      throw new TypeError('secrets is a list with at least one secret');
    this.keys = secrets.map(keyOf);
    this.toleranceS = toleranceS;
  }

  /* Tries each key with each signature, so the time does not tell which one was right. */
  isSigned(value, content) {
    const signatures = value.split(' ');
    if (signatures.length > SIGNATURES_MAX)
      throw new VerificationError(`a header has more than ${SIGNATURES_MAX} signatures`);
    let good = false;
    for (const signature of signatures) {
      const comma = signature.indexOf(',');
      for (const key of this.keys)
        good = key(signature.slice(0, Math.max(comma, 0)), signature.slice(comma + 1), content) ||
          good;
    }
    return good;
  }

  standard(pairs, body, nowS) {
    if (!(body instanceof Uint8Array))
      throw new TypeError("body is the request's bytes (a Buffer), before any parser");
    const time = one(pairs, 'webhook-timestamp');
    if (!/^[0-9]{1,12}$/.test(time))
      throw new VerificationError('webhook-timestamp is not a number');
    if (Math.abs(Math.floor(nowS) - Number(time)) > this.toleranceS)
      throw new VerificationError(
        `webhook-timestamp is more than ${this.toleranceS} s from this machine's clock`);
    const id = one(pairs, 'webhook-id');
    if (!id) throw new VerificationError('webhook-id is empty');
    if (!this.isSigned(one(pairs, 'webhook-signature'),
      Buffer.concat([Buffer.from(`${id}.${time}.`, 'latin1'), body])))
      throw new VerificationError('webhook-signature is wrong');
    return {id, time};
  }

  verifyStandard(headers, body, nowS) {
    const {id, time} = this.standard(pairsOf(headers), body, nowS);
    return eventOf(utf8(id), time, body, {});
  }

  verify(headers, body, nowS) {
    const pairs = pairsOf(headers);
    const {id, time} = this.standard(pairs, body, nowS);
    // Latin-1 text compares as its bytes do.
    const ours = pairs.filter(([n]) => n.startsWith('grapnel-') && n !== 'grapnel-signature')
      .sort(([a, x], [b, y]) => (a < b ? -1 : a > b ? 1 : x < y ? -1 : x > y ? 1 : 0));
    const digest = crypto.createHash('sha256').update(body).digest('hex');
    const lines = [['grapnel-signature', 'v1'], ['webhook-id', id], ['webhook-timestamp', time],
      ['body-sha256', digest], ...ours];
    const content = Buffer.from(lines.map(([n, v]) => `${n} ${v}\n`).join(''), 'latin1');
    if (!this.isSigned(one(pairs, 'grapnel-signature'), content))
      throw new VerificationError('grapnel-signature is wrong');
    return eventOf(utf8(id), time, body,
      Object.fromEntries(ours.map(([n, v]) => [n, utf8(v)])));
  }
}

function number(headers, name) {
  const n = Number(headers[name]);
  if (!/^[0-9]{1,16}$/.test(headers[name]) || !Number.isSafeInteger(n))
    throw new VerificationError(`${name} is not a number`);
  return n;
}

function clockOf(text) {
  const counts = {};
  for (const entry of (text ?? '').split(',')) {
    const [, name, count] = /^(.*)=([0-9]+)$/s.exec(entry) ?? [];
    if (name === undefined) continue;
    // defineProperty: a type may be named __proto__.
    Object.defineProperty(counts, name.replace(/%(2C|3D|25)/g, (c) => decodeURIComponent(c)),
      {value: Number(count), enumerable: true, configurable: true, writable: true});
  }
  return counts;
}

function eventOf(id, time, body, headers) {
  const numbers = 'grapnel-sequence' in headers;
  if (numbers && ['series', 'previous', 'workspace'].some((n) => !(`grapnel-${n}` in headers)))
    throw new VerificationError('grapnel-sequence came without series, previous or workspace');
  const text = (name) => headers[`grapnel-${name}`] ?? null;
  return {
    id, timestamp: Number(time), body: Buffer.from(body), headers,
    source: text('source'), type: text('type'), workspace: text('workspace'), time: text('time'),
    attempt: 'grapnel-attempt' in headers ? number(headers, 'grapnel-attempt') : 1,
    series: text('series'),
    sequence: numbers ? number(headers, 'grapnel-sequence') : null,
    previous: numbers ? number(headers, 'grapnel-previous') : null,
    sourceSequence: text('source-sequence'), gap: text('gap'),
    late: text('late') !== null, replay: text('replay') !== null,
    clock: clockOf(headers['grapnel-clock']),
    json() {
      return JSON.parse(this.body.toString());
    },
  };
}

module.exports = {VerificationError, Verifier};
