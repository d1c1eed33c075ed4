// The HTTP side of the do-it-yourself pipeline: checks a Plane signature, puts the raw body
// into a BullMQ queue, and responds 200 when Redis has it on disk (appendfsync always).
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { Queue } from 'bullmq';
import express from 'express';

const { HTTP_PORT, REDIS_PORT, SECRET } = process.env;
const queue = new Queue('webhooks', {
  connection: { host: '127.0.0.1', port: Number(REDIS_PORT) },
  defaultJobOptions: {
    attempts: 12,
    backoff: { type: 'exponential', delay: 5000 },
    removeOnComplete: true, // keep nothing of a delivered event
  },
});

function genuine(body, signature) {
  const expected = createHmac('sha256', SECRET).update(body).digest();
  const given = Buffer.from(signature ?? '', 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.post('/in/plane', express.raw({ type: '*/*', limit: '1mb' }), async (request, response) => {
  if (!genuine(request.body, request.get('x-plane-signature'))) {
    response.status(401).end();
    return;
  }
  // The job's id is the body's digest: BullMQ ignores a second job with an id that it has.
  const id = createHash('sha256').update(request.body).digest('base64url');
  await queue.add('webhook', {
    body: request.body.toString('utf8'),
    event: request.get('x-plane-event'),
  }, { jobId: id });
  response.json({ id });
});
app.listen(Number(HTTP_PORT), '127.0.0.1', () => console.log('ready'));
