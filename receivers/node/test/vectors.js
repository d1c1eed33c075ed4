// receivers/vectors.json, which Grapnel made.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const VECTORS = JSON.parse(fs.readFileSync(path.join(__dirname, '../../vectors.json')));
const {key: KEY, now: NOW} = VECTORS.order[0];

const body = (vector) => Buffer.from(vector.body_base64, 'base64');

/* As request.rawHeaders has them. */
const headers = (vector) =>
  vector.headers.flat().map((text) => Buffer.from(text).toString('latin1'));

/* Headers and body of the delivery `number` of a scenario. */
function delivery(scenario, number) {
  const found = VECTORS.order.find((s) => s.name === scenario).deliveries[number];
  return [headers(found), body(found)];
}

/* A module that is not in the standard library, or undefined. */
function optional(name) {
  try {
    return require(name);
  } catch (error) {
    // The last one: it was built for another Node.js.
    if (['MODULE_NOT_FOUND', 'ERR_UNKNOWN_BUILTIN_MODULE', 'ERR_DLOPEN_FAILED'].includes(error.code))
      return undefined;
    throw error;
  }
}

module.exports = {KEY, NOW, VECTORS, body, delivery, headers, optional};
