// Runs the tests of this folder again while each subscriber connects late. No test may depend on a fast connection.
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { runFiles } from '../../suites/run-suite.js';

interface Connector {
  connecting: boolean;
  readonly options: { readonly connectionName?: string };
  connect: (onError: unknown) => Promise<unknown>;
}

/** Far longer than a subscriber needs here. */
const LATE_MS = 300;

const { filesOf } = require('../../suites/plan.cjs') as { filesOf: (suite: string) => readonly string[] };

const client = new Redis({ lazyConnect: true });
const connector = Object.getPrototypeOf(Reflect.get(client, 'connector')) as Connector;
const { connect } = connector;
let delayed = 0;

connector.connect = async function (onError) {
  if (this.options.connectionName === 'nestjs-redis-lock:handoffs') {
    this.connecting = true;
    delayed += 1;
    await new Promise((resolve) => setTimeout(resolve, LATE_MS));
    if (!this.connecting) throw new Error('Connection is closed.');
  }
  return connect.call(this, onError);
};

runFiles(filesOf('token').filter((file) => file.startsWith('test/integration/token/')));

// The last test: subscribers are recognized by their names, which may change.
it('has delayed subscribers', () => expect(delayed).toBeGreaterThan(0));
