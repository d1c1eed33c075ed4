// Types of grapnel-receiver.

/** What a delivery says. A field is null if its header is absent. */
export interface GrapnelEvent {
  readonly id: string;
  /** When this attempt was signed, in seconds since 1970. */
  readonly timestamp: number;
  /** A Buffer. */
  readonly body: Uint8Array;
  /** The headers that the signature covers, in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly source: string | null;
  readonly type: string | null;
  readonly workspace: string | null;
  readonly time: string | null;
  readonly attempt: number;
  readonly series: string | null;
  readonly sequence: number | null;
  readonly previous: number | null;
  readonly sourceSequence: string | null;
  readonly gap: string | null;
  readonly late: boolean;
  readonly replay: boolean;
  /** How many events of each type the workspace has had. */
  readonly clock: Readonly<Record<string, number>>;
  /** The body, parsed. */
  json<T = unknown>(): T;
}

/**
 * - `ok`: new, and no event is missing before it
 * - `duplicate`: processed before
 * - `old_event`: new, but a later event of its workspace was processed before it
 * - `gap_detected`: new, and the event `missing` has not arrived
 * - `new_series`: new, and the first one after Grapnel began to number anew
 */
export type Result = 'ok' | 'duplicate' | 'old_event' | 'gap_detected' | 'new_series';

export interface Check {
  readonly result: Result;
  /** False: a duplicate. Skip it. */
  readonly first: boolean;
  /** The number of the previous event, if that has not arrived. Also with other results. */
  readonly missing: number | null;
  /** The last number before `missing` that has arrived: events between the two may be missing, too. */
  readonly after: number | null;
  /** `missing` has arrived in an earlier series, so a restored Grapnel may mean that event. */
  readonly unsure: boolean;
  /** This event was missing until now. */
  readonly filled: boolean;
  /** The id of another event that has the same number. */
  readonly conflict: string | null;
}

/** A number that an event names as its previous one and that has not arrived. */
export interface Missing {
  readonly series: string;
  readonly workspace: string;
  readonly number: number;
  /** When it was first named, in seconds since 1970. */
  readonly since: number;
  readonly unsure: boolean;
}

/** `request.rawHeaders`, pairs, or a `Headers` object. */
export type HeadersLike = readonly string[] | readonly (readonly [string, string])[] |
  Iterable<readonly [string, string]>;

/** `client`: of the store, inside the transaction that stores the event; null with claims. */
export type Handler<Client> = (event: GrapnelEvent, check: Check, client: Client) => void | Promise<void>;

/** Keeps ids and numbers of events. Make your own by implementing it. */
export interface Store<Client> {
  process(event: GrapnelEvent, nowS: number, order: boolean, handle: Handler<Client>): Promise<Check>;
  /** Stores that can join a transaction of the caller have it. */
  check?(event: GrapnelEvent, nowS: number, order: boolean, client: Client): Promise<Check>;
  missing(beforeS: number): Promise<Missing[]>;
  forget(beforeS: number): Promise<void>;
}

export interface ReceiverOptions {
  /** How far webhook-timestamp may be from this machine's clock: 300 seconds. */
  toleranceS?: number;
  /** False: only deduplicate. */
  order?: boolean;
  /** Seconds since 1970. */
  clock?: () => number;
}

/** The request is not from your Grapnel, or not as Grapnel sent it. Respond 401. */
export class VerificationError extends Error {}

/** Another attempt of this event is being processed. Respond 503 with Retry-After. */
export class Busy extends Error {}

export class Receiver<Client = null> {
  /** `secrets`: each "whsec_…" or "whpk_…"; two or more while you change one. */
  constructor(secrets: readonly string[], store?: Store<Client>, options?: ReceiverOptions);
  readonly store: Store<Client>;
  /** Throws VerificationError. `body`: the bytes, before any parser has changed them. */
  verify(headers: HeadersLike, body: Uint8Array): GrapnelEvent;
  /** For requests without grapnel-signature, such as alerts: only id, timestamp and body. */
  verifyStandard(headers: HeadersLike, body: Uint8Array): GrapnelEvent;
  /** verify() and process(). */
  receive(headers: HeadersLike, body: Uint8Array, handle: Handler<Client>): Promise<Check>;
  /** Calls `handle` unless the event is a duplicate, and stores the event as processed. */
  process(event: GrapnelEvent, handle: Handler<Client>): Promise<Check>;
  /** Stores the event in the transaction that you have begun on `client`, and leaves it open. */
  check(event: GrapnelEvent, client: Client): Promise<Check>;
  /** Events that were named, but have not arrived for this long (an hour). */
  missing(options?: {olderS?: number}): Promise<Missing[]>;
  /** Deletes what was received before (40 days). Call it once a day. */
  forget(options?: {olderS?: number}): Promise<void>;
}

/** For tests, and for one process whose work may be repeated after a restart. */
export class MemoryStore implements Store<null> {
  constructor(options?: {keepS?: number});
  process(event: GrapnelEvent, nowS: number, order: boolean, handle: Handler<null>): Promise<Check>;
  missing(beforeS: number): Promise<Missing[]>;
  forget(beforeS: number): Promise<void>;
}

/** A client of node-redis (sendCommand) or ioredis (call). */
export interface RedisClient {
  sendCommand?(command: any): Promise<unknown>;
  call?(command: string, ...values: any[]): Promise<unknown>;
}

/** Claims an event, lets it be processed, and stores it: after a crash between the last two, the
 * event is processed again when the claim has ended (`leaseS`, 60 seconds). */
export class RedisStore implements Store<null> {
  constructor(client: RedisClient, options?: {prefix?: string; keepS?: number; leaseS?: number});
  process(event: GrapnelEvent, nowS: number, order: boolean, handle: Handler<null>): Promise<Check>;
  missing(beforeS: number): Promise<Missing[]>;
  forget(beforeS: number): Promise<void>;
}

/** A client of pg. */
export interface PostgresClient {
  query(sql: string, values?: any[]): Promise<{rows: any[]; rowCount?: number | null}>;
}

/** A pool of pg. */
export interface PostgresPool<Client extends PostgresClient> {
  connect(): Promise<Client & {release(error?: any): void}>;
}

export class PostgresStore<Client extends PostgresClient> implements Store<Client> {
  constructor(pool: PostgresPool<Client>);
  /** Creates what is not there yet. */
  createTables(): Promise<void>;
  process(event: GrapnelEvent, nowS: number, order: boolean, handle: Handler<Client>): Promise<Check>;
  check(event: GrapnelEvent, nowS: number, order: boolean, client: Client): Promise<Check>;
  missing(beforeS: number): Promise<Missing[]>;
  forget(beforeS: number): Promise<void>;
}

/** A connection of node:sqlite or better-sqlite3 (prepare), or of sqlite3 (all, run). */
export type SQLiteDatabase =
  | {prepare(sql: string): {all(...values: any[]): any[]; run(...values: any[]): {changes: number | bigint}}}
  | {all(sql: string, values: any, callback: (error: Error | null, rows: any[]) => void): any;
     run(sql: string, values: any, callback: (error: Error | null) => void): any};

export class SQLiteStore<Database extends SQLiteDatabase> implements Store<Database> {
  /** Other code must not use this connection: its changes would be in the event's transaction. */
  constructor(database: Database);
  createTables(): Promise<void>;
  process(event: GrapnelEvent, nowS: number, order: boolean, handle: Handler<Database>): Promise<Check>;
  check(event: GrapnelEvent, nowS: number, order: boolean, client: Database): Promise<Check>;
  missing(beforeS: number): Promise<Missing[]>;
  forget(beforeS: number): Promise<void>;
}

/** The statements of createTables(). */
export const SCHEMA: readonly string[];

/** Express middleware: `app.use('/hooks', grapnel(receiver, handle))`, before express.json(). It
 * reads the body itself and responds 204, 401, 405, 413 or 503. `maxBody` is 1 MiB. */
export function grapnel<Client>(
  receiver: Receiver<Client>,
  handle: Handler<Client>,
  options?: {maxBody?: number; log?: (...words: any[]) => void},
): (request: any, response: any) => Promise<void>;
