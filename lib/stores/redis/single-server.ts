import type { Clock } from '../../core/clock.js';
import { DatedAsks } from './dated-asks.js';
import type { RedisClient } from './redis-client.js';
import { RedisConnection } from './redis-connection.js';
import type { RedisScript } from './redis-script.js';
import type { Call, Server, Servers } from './servers.js';

/** All keys on one server: nothing is looked up, and nothing is waited for. */
export class SingleServer implements Servers, Server {
  readonly connection: RedisConnection;
  readonly asks: DatedAsks;
  readonly prefix: string;

  constructor(client: RedisClient, clock: Clock, patienceMs: number) {
    this.prefix = client.options?.keyPrefix ?? '';
    this.connection = new RedisConnection(client, clock, patienceMs);
    this.asks = new DatedAsks(this.connection, clock);
  }

  get accepting(): boolean {
    return this.connection.ready;
  }

  keyOf(key: string): string {
    return key;
  }

  run<T>(_key: string, send: (server: Server) => Promise<T>): Promise<T> {
    return send(this);
  }

  runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]> {
    return script.runAll(this.connection, calls);
  }

  callOff(owner: string): boolean {
    return this.asks.callOff(owner);
  }
}
