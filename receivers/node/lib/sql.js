// Stores in PostgreSQL and SQLite: the event's id, its number and the work are one transaction. The
// library for Python has the same tables.
'use strict';

const {decide, numbered, plain} = require('./decide');

const SCHEMA = [
  `CREATE TABLE IF NOT EXISTS grapnel_events (
  id TEXT PRIMARY KEY, received_s BIGINT NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS grapnel_series (
  workspace TEXT NOT NULL, series TEXT NOT NULL,
  floor BIGINT, announced INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (workspace, series))`,
  `CREATE TABLE IF NOT EXISTS grapnel_numbers (
  workspace TEXT NOT NULL, series TEXT NOT NULL, sequence BIGINT NOT NULL,
  previous BIGINT NOT NULL, id TEXT NOT NULL, received_s BIGINT NOT NULL,
  PRIMARY KEY (workspace, series, sequence))`,
  `CREATE INDEX IF NOT EXISTS grapnel_numbers_previous
  ON grapnel_numbers (workspace, series, previous)`,
  'CREATE INDEX IF NOT EXISTS grapnel_numbers_received ON grapnel_numbers (received_s)',
  'CREATE INDEX IF NOT EXISTS grapnel_events_received ON grapnel_events (received_s)',
];
const TAKE_ID = 'INSERT INTO grapnel_events (id, received_s) VALUES (?, ?) ON CONFLICT DO NOTHING';
const SERIES = 'SELECT floor, announced FROM grapnel_series WHERE workspace = ? AND series = ?';
const ADD_SERIES = `INSERT INTO grapnel_series (workspace, series) VALUES (?, ?)
ON CONFLICT DO NOTHING`;
const SET_SERIES = `UPDATE grapnel_series SET floor = ?, announced = ?
WHERE workspace = ? AND series = ?`;
const ADD_NUMBER = `INSERT INTO grapnel_numbers
  (workspace, series, sequence, previous, id, received_s)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
const HERE = 'FROM grapnel_numbers WHERE workspace = ? AND series = ?';
const OTHERS = 'FROM grapnel_series s WHERE s.workspace = ? AND s.series <> ?';
const FACTS = `SELECT (SELECT id ${HERE} AND sequence = ?) AS holder,
  (SELECT max(sequence) ${HERE}) AS highest,
  EXISTS (SELECT 1 ${HERE} AND sequence = ?) AS has_previous,
  (SELECT max(sequence) ${HERE} AND sequence < ?) AS below,
  EXISTS (SELECT 1 ${HERE} AND previous = ?) AS named,
  EXISTS (SELECT 1 ${OTHERS} AND s.floor IS NOT NULL) AS earlier,
  EXISTS (SELECT 1 ${OTHERS} AND EXISTS (SELECT 1 FROM grapnel_numbers n
    WHERE n.workspace = s.workspace AND n.series = s.series AND n.sequence = ?)) AS in_other`;
const MISSING = `SELECT n.series, n.workspace, n.previous, min(n.received_s) AS since_s,
  EXISTS (SELECT 1 FROM grapnel_numbers o WHERE o.workspace = n.workspace
          AND o.sequence = n.previous AND o.series <> n.series) AS in_other
FROM grapnel_numbers n JOIN grapnel_series s ON s.workspace = n.workspace AND s.series = n.series
WHERE n.previous > s.floor AND NOT EXISTS (SELECT 1 FROM grapnel_numbers p
  WHERE p.workspace = n.workspace AND p.series = n.series AND p.sequence = n.previous)
GROUP BY n.series, n.workspace, n.previous HAVING min(n.received_s) <= ?
ORDER BY min(n.received_s), n.previous`;
// Numbers up to the highest deleted one count as arrived.
const RAISE_FLOOR = `UPDATE grapnel_series SET floor = (
  SELECT max(n.sequence) FROM grapnel_numbers n WHERE n.workspace = grapnel_series.workspace
  AND n.series = grapnel_series.series AND n.received_s < ?)
WHERE floor < (SELECT max(n.sequence) FROM grapnel_numbers n
  WHERE n.workspace = grapnel_series.workspace AND n.series = grapnel_series.series
  AND n.received_s < ?)`;
const FORGET = [
  'DELETE FROM grapnel_numbers WHERE received_s < ?',
  'DELETE FROM grapnel_events WHERE received_s < ?',
];

const int = (value) => (value === null ? null : Number(value)); // pg has bigint as text

/* What both do. A client has query(sql, values) => {rows, changes}; `lock` keeps other
 * transactions from the row of a series. Both events of a pair would else be `ok` although the later
 * one was processed first. */
class SQLStore {
  lock = '';

  async createTables() {
    await this.transaction(async (client) => {
      for (const statement of SCHEMA) await this.query(client, statement, []);
    });
  }

  async process(event, nowS, order, handle) {
    return this.transaction(async (client) => {
      const check = await this.check(event, nowS, order, client);
      if (check.first) await handle(event, check, client);
      return check;
    });
  }

  async check(event, nowS, order, client) {
    this.mustBeOpen(client);
    const ask = (sql, ...values) => this.query(client, sql, values);
    // Waits for a transaction that has the same id, until that one has ended.
    const first = (await ask(TAKE_ID, event.id, nowS)).changes === 1;
    if (!order || !numbered(event)) return plain(first);
    const here = [event.workspace, event.series];
    let {rows: [series]} = await ask(SERIES + this.lock, ...here);
    if (!series) {
      await ask(ADD_SERIES, ...here);
      ({rows: [series]} = await ask(SERIES + this.lock, ...here));
    }
    const {sequence, previous} = event;
    const {rows: [row]} = await ask(FACTS, ...here, sequence, ...here, ...here, previous, ...here,
      previous, ...here, sequence, ...here, ...here, previous);
    const facts = {floor: int(series.floor), announced: Boolean(series.announced),
      earlier: Boolean(row.earlier), holder: row.holder, highest: int(row.highest),
      hasPrevious: Boolean(row.has_previous), below: int(row.below), named: Boolean(row.named),
      inOther: Boolean(row.in_other)};
    const {check, floor, announced} = decide(event, first, facts);
    await ask(ADD_NUMBER, ...here, sequence, previous, event.id, nowS);
    if (floor !== facts.floor || announced !== facts.announced)
      await ask(SET_SERIES, floor, Number(announced), ...here);
    return check;
  }

  async missing(beforeS) {
    return this.transaction(async (client) => {
      const {rows} = await this.query(client, MISSING, [beforeS]);
      return rows.map((row) => ({series: row.series, workspace: row.workspace,
        number: Number(row.previous), since: Number(row.since_s), unsure: Boolean(row.in_other)}));
    });
  }

  async forget(beforeS) {
    await this.transaction(async (client) => {
      await this.query(client, RAISE_FLOOR, [beforeS, beforeS]);
      for (const statement of FORGET) await this.query(client, statement, [beforeS]);
    });
  }
}

class PostgresStore extends SQLStore {
  lock = ' FOR UPDATE';

  constructor(pool) {
    super();
    this.pool = pool;
  }

  mustBeOpen(client) {
    if (typeof client?.query !== 'function' || typeof client.totalCount === 'number')
      throw new TypeError('check() needs the client on which you have begun a transaction, ' +
        'not a pool');
  }

  async query(client, sql, values) {
    let n = 0;
    const {rows, rowCount} = await client.query(sql.replace(/\?/g, () => `$${++n}`), values);
    return {rows, changes: rowCount};
  }

  async transaction(work) {
    const client = await this.pool.connect();
    let broken;
    // A connection that breaks while `work` does something else; its next query fails.
    const breaks = (error) => { broken = error; };
    client.on?.('error', breaks);
    try {
      await client.query('BEGIN');
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK').catch((why) => { broken = why; });
      throw error;
    } finally {
      client.off?.('error', breaks);
      client.release(broken); // the pool drops a connection that cannot roll back
    }
  }
}

/* Transactions of one connection take turns, in `queue`. */
class SQLiteStore extends SQLStore {
  constructor(database) {
    super();
    this.database = database;
    this.queue = Promise.resolve();
  }

  mustBeOpen(client) {
    // better-sqlite3, node:sqlite; sqlite3 does not say.
    if ((client.inTransaction ?? client.isTransaction) === false)
      throw new TypeError('check() needs an open transaction: else the event and your work would ' +
        'not be stored together');
  }

  async query(client, sql, values) {
    if (typeof client.all === 'function') // sqlite3
      return new Promise((resolve, reject) => {
        if (/^SELECT/.test(sql))
          client.all(sql, values, (error, rows) => (error ? reject(error) : resolve({rows})));
        else
          client.run(sql, values, function ended(error) {
            if (error) reject(error);
            else resolve({rows: [], changes: this.changes});
          });
      });
    const statement = client.prepare(sql);
    if (/^SELECT/.test(sql)) return {rows: statement.all(...values)};
    return {rows: [], changes: Number(statement.run(...values).changes)};
  }

  async transaction(work) {
    const turn = this.queue.then(() => this.run(work));
    this.queue = turn.catch(() => {});
    return turn;
  }

  async run(work) {
    // Writers wait here. A transaction that begins to write later could fail instead.
    await this.query(this.database, 'BEGIN IMMEDIATE', []);
    try {
      const result = await work(this.database);
      await this.query(this.database, 'COMMIT', []);
      return result;
    } catch (error) {
      await this.query(this.database, 'ROLLBACK', []).catch(() => {}); // it may have ended itself
      throw error;
    }
  }
}

module.exports = {PostgresStore, SCHEMA, SQLiteStore};
