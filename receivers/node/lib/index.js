// Receives Grapnel's deliveries: verifies the signatures, processes each event once, and tells
// whether events are missing or old.
'use strict';

const {Receiver} = require('./receiver');
const {VerificationError} = require('./signatures');
const {Busy, MemoryStore} = require('./claims');
const {RedisStore} = require('./redis');
const {PostgresStore, SQLiteStore, SCHEMA} = require('./sql');
const {grapnel} = require('./express');

module.exports = {Busy, MemoryStore, PostgresStore, Receiver, RedisStore, SCHEMA, SQLiteStore,
  VerificationError, grapnel};
