// The delivering side of the do-it-yourself pipeline: takes jobs from BullMQ and posts each to
// the endpoint, signed as Standard Webhooks ask for. A failed attempt is retried by BullMQ.
import { createHmac } from 'node:crypto';
import { Agent, request } from 'node:http';
import { Worker } from 'bullmq';

const { ENDPOINT, REDIS_PORT, CONCURRENCY, SIGNING_SECRET } = process.env;
const key = Buffer.from(SIGNING_SECRET.replace(/^whsec_/, ''), 'base64');
const agent = new Agent({ keepAlive: true, maxSockets: Number(CONCURRENCY) });

function post(id, body) {
  const timestamp = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return new Promise((resolve, reject) => {
    const attempt = request(ENDPOINT, {
      method: 'POST',
      agent,
      timeout: 15000,
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      },
    }, (response) => {
      response.resume();
      response.on('end', () => (response.statusCode >= 200 && response.statusCode < 300
        ? resolve() : reject(new Error(`status ${response.statusCode}`))));
    });
    attempt.on('timeout', () => attempt.destroy(new Error('timeout')));
    attempt.on('error', reject);
    attempt.end(body);
  });
}

const worker = new Worker('webhooks', (job) => post(job.id, job.data.body), {
  connection: { host: '127.0.0.1', port: Number(REDIS_PORT), maxRetriesPerRequest: null },
  concurrency: Number(CONCURRENCY),
});
await worker.waitUntilReady();
console.log('ready');
