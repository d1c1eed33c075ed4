// Verifies a request, and processes its event once.
'use strict';

const {MemoryStore} = require('./claims');
const {Verifier} = require('./signatures');

const KEEP_S = 40 * 86400; // longer than Grapnel may send an event again, by default

class Receiver {
  constructor(secrets, store = new MemoryStore(), options = {}) {
    const {toleranceS = 300, order = true, clock = () => Date.now() / 1000} = options;
    this.verifier = new Verifier(secrets, toleranceS);
    this.store = store;
    this.order = order;
    this.clock = clock;
  }

  verify(headers, body) {
    return this.verifier.verify(headers, body, this.clock());
  }

  verifyStandard(headers, body) {
    return this.verifier.verifyStandard(headers, body, this.clock());
  }

  async receive(headers, body, handle) {
    return this.process(this.verify(headers, body), handle);
  }

  async process(event, handle) {
    return this.store.process(event, Math.floor(this.clock()), this.order, handle);
  }

  async check(event, client) {
    if (!this.store.check)
      throw new TypeError(
        `${this.store.constructor.name} cannot join your transaction: call process()`);
    return this.store.check(event, Math.floor(this.clock()), this.order, client);
  }

  async missing({olderS = 3600} = {}) {
    return this.store.missing(Math.floor(this.clock()) - olderS);
  }

  async forget({olderS = KEEP_S} = {}) {
    await this.store.forget(Math.floor(this.clock()) - olderS);
  }
}

module.exports = {Receiver};
