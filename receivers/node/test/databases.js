// The databases that tests use. GRAPNEL_TEST_POSTGRES (postgresql://…) and GRAPNEL_TEST_REDIS
// (unix://…) name servers whose data the tests may delete. A driver that is not installed is skipped.
'use strict';

const {PostgresStore, RedisStore, SQLiteStore} = require('../lib');
const {optional} = require('./vectors');

const {GRAPNEL_TEST_POSTGRES: POSTGRES, GRAPNEL_TEST_REDIS: REDIS} = process.env;

function sqlite3() {
  const driver = optional('sqlite3');
  const call = (db, method, ...args) => new Promise((resolve, reject) => {
    db[method](...args, (error, rows) => (error ? reject(error) : resolve(rows)));
  });
  const connect = (path) => new Promise((resolve, reject) => {
    const db = new driver.Database(path, (error) => (error ? reject(error) : resolve(db)));
  });
  return driver && {connect, run: (db, sql) => call(db, 'run', sql),
    all: (db, sql) => call(db, 'all', sql), close: (db) => call(db, 'close')};
}

function prepared(Database) {
  return Database && {connect: async (path) => new Database(path),
    run: async (db, sql) => db.exec(sql), all: async (db, sql) => db.prepare(sql).all(),
    close: async (db) => db.close()};
}

function sqlite(driver) {
  if (!driver) return undefined;
  return {
    async open(path) {
      const db = await driver.connect(path);
      return {store: new SQLiteStore(db), client: db, close: () => driver.close(db),
        work: (client) => driver.run(client, "INSERT INTO work VALUES ('x')")};
    },
    async fresh(path) {
      const opened = await this.open(path);
      await driver.run(opened.client, 'CREATE TABLE work (id TEXT)');
      return opened;
    },
    run: driver.run,
    async count(client) {
      return Number((await driver.all(client, 'SELECT count(*) AS n FROM work'))[0].n);
    },
  };
}

function postgres() {
  const driver = POSTGRES && optional('pg');
  if (!driver) return undefined;
  return {
    async open() {
      // A Unix socket is named by `host` in the URI's query.
      const uri = new URL(POSTGRES.replace('@/', '@socket/'));
      const pool = new driver.Pool({host: uri.searchParams.get('host') ?? uri.hostname,
        port: uri.searchParams.get('port') ?? (uri.port || undefined), user: uri.username,
        password: uri.password, database: uri.pathname.slice(1)});
      return {store: new PostgresStore(pool), client: pool, close: () => pool.end(),
        work: (client) => client.query("INSERT INTO work VALUES ('x')")};
    },
    async fresh() {
      const opened = await this.open();
      await opened.client.query('DROP TABLE IF EXISTS work, grapnel_events, grapnel_series, ' +
        'grapnel_numbers; CREATE TABLE work (id TEXT)');
      return opened;
    },
    run: (client, sql) => client.query(sql),
    async count(client) {
      return Number((await client.query('SELECT count(*) AS n FROM work')).rows[0].n);
    },
  };
}

function redis() {
  const driver = REDIS && optional('redis');
  if (!driver) return undefined;
  return {
    async open() {
      const client = driver.createClient({socket: {path: REDIS.replace('unix://', '')}});
      await client.connect();
      return {store: new RedisStore(client, {leaseS: 1}), client, close: () => client.quit()};
    },
    async fresh() {
      const opened = await this.open();
      await opened.client.sendCommand(['FLUSHALL']);
      opened.store = new RedisStore(opened.client);
      return opened;
    },
  };
}

function ioredis() {
  const Client = REDIS && optional('ioredis');
  if (!Client) return undefined;
  return {
    async open() {
      const client = new Client(REDIS.replace('unix://', ''));
      return {store: new RedisStore(client, {leaseS: 1}), client, close: () => client.quit()};
    },
    async fresh() {
      const opened = await this.open();
      await opened.client.call('FLUSHALL');
      opened.store = new RedisStore(opened.client);
      return opened;
    },
  };
}

module.exports = {
  'sqlite3': sqlite(sqlite3()),
  'node:sqlite': sqlite(prepared(optional('node:sqlite')?.DatabaseSync)),
  'better-sqlite3': sqlite(prepared(optional('better-sqlite3'))),
  'pg': postgres(),
  'redis': redis(),
  'ioredis': ioredis(),
};
