import type { Clock } from '../core/time/clock.js';
import { DeadlineRequests } from './deadline-requests.js';
import type { RedisClient } from './redis-client.js';
import { RedisConnection } from './redis-connection.js';
import type { RedisScript } from './redis-script.js';
import type { Call, RedisNode, Topology } from './topology.js';

/** All keys on one server: nothing is looked up, and nothing is waited for. */
export class SingleNode implements Topology, RedisNode {
  readonly connection: RedisConnection;
  readonly deadlineRequests: DeadlineRequests;
  readonly prefix: string;

  constructor(client: RedisClient, clock: Clock, requestTimeoutMs: number) {
    this.prefix = client.options?.keyPrefix ?? '';
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    this.deadlineRequests = new DeadlineRequests(this.connection, clock);
  }

  get accepting(): boolean {
    return this.connection.ready;
  }

  keyOf(key: string): string {
    return key;
  }

  run<T>(_key: string, send: (server: RedisNode) => Promise<T>): Promise<T> {
    return send(this);
  }

  runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]> {
    return script.runAll(this.connection, calls);
  }

  cancel(owner: string): boolean {
    return this.deadlineRequests.cancel(owner);
  }
}
