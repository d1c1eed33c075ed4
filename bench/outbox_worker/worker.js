// worker: drains webhook_outbox as people write it by hand: a batch of rows in a transaction, a POST for
// each, signed as Standard Webhooks, and an UPDATE with the outcome. For bench/outbox.
//
//     node worker.js FOLDER-OF-THE-SOCKET URL
const { createHmac } = require("crypto");
const { Client } = require("pg");

const BATCH = 100;
const RETRIES_MAX = 5;
const [, , host, url] = process.argv;
const secret = Buffer.from("the worker's signing secret");

async function send(row) {
  const body = row.payload;
  const at = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", secret).update(`${row.id}.${at}.${body}`).digest("base64");
  const response = await fetch(url, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": row.id,
      "webhook-timestamp": String(at),
      "webhook-signature": `v1,${signature}`,
    },
    signal: AbortSignal.timeout(10000),
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`status ${response.status}`);
}

async function drain(client, row) {
  try {
    await send(row);
    await client.query(
      "UPDATE webhook_outbox SET status = 'SUCCESS', last_attempt_at = now(), error_message = NULL WHERE id = $1",
      [row.id]);
  } catch (error) {
    const status = row.retry_count < RETRIES_MAX ? "PENDING_RETRY" : "FAILED_PERMANENTLY";
    await client.query(
      `UPDATE webhook_outbox SET status = $2, retry_count = retry_count + 1, last_attempt_at = now(),
       next_attempt_at = now() + interval '2 seconds' * 2 ^ retry_count, error_message = $3 WHERE id = $1`,
      [row.id, status, String(error)]);
  }
}

async function main() {
  const client = new Client({ host, user: "app", database: "postgres" });
  await client.connect();
  for (;;) {
    await client.query("BEGIN");
    const { rows } = await client.query(
      `SELECT id, payload, retry_count FROM webhook_outbox WHERE status = 'NOT_CALLED'
       ORDER BY created_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`,
      [BATCH]);
    await Promise.all(rows.map((row) => drain(client, row)));
    await client.query("COMMIT");
    if (!rows.length) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

main();
