// Stores an order, and the webhook about it, in one transaction (node-postgres).
const { randomUUID } = require('node:crypto');
const { Client } = require('pg');

async function placeOrder(db, customer, total) {
  const { rows: [order] } = await db.query(
    'INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id::int', [customer, total]);
  await db.query(
    `INSERT INTO webhook_outbox (id, event_type, workspace, payload)
     VALUES ($1, 'order.placed', $2, $3)`,
    [randomUUID(), customer, JSON.stringify({ order: order.id, customer, total })]);
  return order.id;
}

async function inTransaction(db, work) {
  await db.query('BEGIN');
  try {
    const result = await work();
    await db.query('COMMIT');
    return result;
  } catch (error) {
    await db.query('ROLLBACK');
    throw error;
  }
}

async function main(declined) {
  // One connection for the whole transaction: of a pool, take one with pool.connect().
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  try {
    const id = await inTransaction(db, async () => {
      const order = await placeOrder(db, 'acme', 4200);
      if (declined) throw new Error('the payment was declined'); // rolls both back
      return order;
    });
    console.log(`order ${id}`);
  } finally {
    await db.end();
  }
}

main(process.argv.length > 2).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
