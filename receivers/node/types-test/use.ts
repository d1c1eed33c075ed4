// What users write, for the compiler of TypeScript: it is never run.
import {
  Busy, Check, GrapnelEvent, MemoryStore, Missing, PostgresStore, Receiver, RedisStore, Result,
  SCHEMA, SQLiteStore, VerificationError, grapnel,
} from '../lib';

declare const pool: {
  connect(): Promise<{query(sql: string, values?: unknown[]): Promise<{rows: any[]; rowCount: number}>;
    listen(channel: string): void; release(): void}>;
};
declare const database: {
  prepare(sql: string): {all(...values: unknown[]): unknown[]; run(...values: unknown[]): {changes: number}};
  inTransaction: boolean;
};
declare const redis: {sendCommand(command: string[]): Promise<unknown>};
declare const app: {use(path: string, handler: (request: object, response: object) => unknown): void};

const store = new PostgresStore(pool);
const receiver = new Receiver(['whsec_AAAA'], store, {toleranceS: 60, order: false});

app.use('/hooks', grapnel(receiver, async (event, check, client) => {
  const body = event.json<{action: string}>();
  const result: Result = check.result;
  client.listen(result);
  await client.query('INSERT INTO t VALUES ($1, $2)', [event.id, body.action]);
}, {maxBody: 1000, log: () => {}}));

async function use(event: GrapnelEvent): Promise<Check> {
  const missing: Missing[] = await receiver.missing({olderS: 1});
  const inMemory = new Receiver(['whsec_AAAA']);
  await inMemory.process(event, (e, c, client: null) => {});
  await new Receiver(['whsec_AAAA'], new MemoryStore({keepS: 1})).forget();
  await new Receiver(['whsec_AAAA'], new RedisStore(redis, {leaseS: 1})).forget({olderS: 1});
  const inFile = new Receiver(['whsec_AAAA'], new SQLiteStore(database));
  try {
    return await inFile.receive(['webhook-id', event.id], event.body, (e, c, db) => {
      db.prepare(SCHEMA[0]).run(missing.length);
    });
  } catch (error) {
    if (error instanceof Busy || error instanceof VerificationError) throw error;
    // @ts-expect-error: there is no such result
    if (event.attempt === 1) return {result: 'unknown'};
    return receiver.check(inMemory.verify([['a', 'b']], event.body), await pool.connect());
  }
}

void use;
