// Middleware for Express, and for every framework whose handlers are (request, response, next) of
// node:http.
'use strict';

const {Busy} = require('./claims');
const {VerificationError} = require('./signatures');

/* The body's bytes, or null: it is too large. The rest is read and dropped, because the response to
 * a request that is still being sent could be lost. */
async function bodyOf(request, maxBytes) {
  const there = request.rawBody ?? request.body; // of express.raw()
  if (there instanceof Uint8Array) return there.length > maxBytes ? null : there;
  if (request.readableEnded || request.readableDidRead)
    throw new TypeError('the body has been read already: put grapnel() before express.json(), or ' +
      'use express.raw({type: () => true}) for this path');
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size <= maxBytes) parts.push(part);
  }
  return size > maxBytes ? null : Buffer.concat(parts);
}

async function statusOf(request, receiver, handle, maxBody, log) {
  const body = await bodyOf(request, maxBody);
  if (!body) return 413;
  try {
    await receiver.receive(request.rawHeaders, body, handle);
    return 204;
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    log(`grapnel: refused a request: ${error.message}`);
    return 401;
  }
}

/* 204: processed, or a duplicate. 401: a wrong signature. 413: the body is too large. 503: `handle`
 * or the store failed, and Grapnel sends the event again. */
function grapnel(receiver, handle, {maxBody = 1 << 20, log = console.error} = {}) {
  return async (request, response) => {
    let status = 405;
    if (request.method !== 'POST' && request.method !== 'PUT') {
      response.setHeader('Allow', 'POST, PUT');
    } else {
      try {
        status = await statusOf(request, receiver, handle, maxBody, log);
      } catch (error) {
        status = 503;
        if (error instanceof Busy) response.setHeader('Retry-After', '10');
        else if (request.destroyed && !request.complete) return; // the client has gone
        else log('grapnel: an event was not processed; Grapnel sends it again:', error);
      }
    }
    response.statusCode = status;
    response.end();
  };
}

module.exports = {grapnel};
