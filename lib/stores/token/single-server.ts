import type { Clock } from '../../core/clock.js';
import type { StoreListener } from '../../core/lock-store.js';
import { DatedAsks } from '../redis/dated-asks.js';
import { RedisConnection } from '../redis/redis-connection.js';
import type { RedisScript } from '../redis/redis-script.js';
import type { StoreContext } from '../store-context.js';
import { HandOffChannel, type HandOffListener } from './hand-off-channel.js';
import type { Call, Listening, Server, Servers } from './servers.js';
import { keysOf } from './token-scripts.js';

const NONE: readonly string[] = [];

/** All keys on one server: nothing is looked up, and nothing is waited for. */
export class SingleServer implements Servers, Server {
  readonly connection: RedisConnection;
  readonly asks: DatedAsks;
  private readonly clock: Clock;

  constructor(private readonly context: StoreContext) {
    this.clock = context.clock;
    this.connection = new RedisConnection(context.redis(), this.clock, context.requestTimeoutMs);
    this.asks = new DatedAsks(this.connection, this.clock);
  }

  get accepting(): boolean {
    return this.connection.ready;
  }

  keyOf(key: string): string {
    return key;
  }

  keysOf(key: string): readonly string[] {
    return keysOf(key);
  }

  handOffArgs(): readonly string[] {
    return NONE;
  }

  run<T>(_key: string, send: (server: Server) => Promise<T>): Promise<T> {
    return send(this);
  }

  runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]> {
    return script.runAll(
      this.connection,
      calls.map(({ key, args }) => ({ keys: [key], args })),
    );
  }

  callOff(owner: string): boolean {
    return this.asks.callOff(owner);
  }

  listen(listener: StoreListener, events: HandOffListener): Listening {
    const { requestTimeoutMs } = this.context;
    const connect = () => this.context.subscriber();
    const { instanceId } = listener;
    const handOffs = new HandOffChannel(instanceId, this.connection, this.clock, requestTimeoutMs, connect, events);
    return { handOffs, stop: this.connection.listen(listener, handOffs) };
  }
}
