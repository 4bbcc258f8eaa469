import type { FurtherConnections } from '../redis/redis-client.js';
import type { AdapterEvent } from './client-events.js';
import type { NodeRedisClient } from './node-redis.js';
import { OwnConnection } from './own-connection.js';
import { type NodeRedisSentinels, SentinelLookup } from './sentinel-lookup.js';

/** The error of a server that was a master when the connection was made. */
const READONLY = /\bREADONLY\b/;

/**
 * A connection to the master that Sentinels name, as stores see a client of ioredis. Sentinels are asked before each
 * attempt to connect. It is there as long as someone listens to `ready`.
 */
export class SentinelClient extends OwnConnection {
  override readonly options: OwnConnection['options'] & Pick<NodeRedisSentinels, 'sentinels' | 'name'>;
  readonly furtherConnections: FurtherConnections;

  constructor(template: NodeRedisClient, given: NodeRedisSentinels) {
    const { locate } = new SentinelLookup(template, given);
    super(template, { name: 'nestjs-redis-lock', locate });
    const { sentinels, name } = given;
    // Stores name the server by its Sentinels, because its address changes.
    this.options = { sentinels, name };
    this.furtherConnections = {
      subscriber: () => new OwnConnection(template, { name: 'nestjs-redis-lock:handoffs', locate }),
      replicaConnection: () => new OwnConnection(template, { name: 'nestjs-redis-lock:replicas', locate }),
    };
  }

  override on(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.on(event, listener);
    if (event === 'ready') void this.connect();
    return this;
  }

  override off(event: AdapterEvent, listener: (...args: never[]) => void): this {
    super.off(event, listener);
    if (event === 'ready' && this.listenerCount('ready') === 0) this.disconnect();
    return this;
  }

  protected override send(args: readonly string[]): Promise<unknown> {
    if (this.status === 'wait') void this.connect();
    return super.send(args).catch((error: unknown) => {
      // A Sentinel cuts the connections of a master that it has made a replica. This one has come through it.
      if (error instanceof Error && READONLY.test(error.message) && this.status === 'ready') this.disconnect(true);
      throw error;
    });
  }
}
