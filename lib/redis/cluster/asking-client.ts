import type { RedisClient, RedisPipeline, ReplicaConnection, ReplicaPipeline } from '../redis-client.js';
import type { AskingPipeline, ClusterNodeClient } from './cluster-client.js';

/** A client whose scripts are sent with ASKING, to a node that has the key before it owns the slot. */
export class AskingClient implements RedisClient {
  constructor(private readonly client: ClusterNodeClient) {}

  get status(): string {
    return this.client.status;
  }

  async eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    const pipeline = withAsking(this.client.pipeline());
    pipeline.eval(script, keyCount, ...args);
    const [[error, reply]] = (await pipeline.exec()) ?? [[new Error('the pipeline gave no reply'), undefined]];
    if (error !== null) throw error;
    return reply;
  }

  evalsha(): Promise<unknown> {
    return Promise.reject(new Error('NOSCRIPT'));
  }

  time(): Promise<unknown> {
    return this.client.time();
  }

  pipeline(): RedisPipeline {
    return this.client.pipeline();
  }

  on(): void {
    // The node's own connection reports the client's state.
  }

  off(): void {
    // Nothing was registered.
  }

  listenerCount(): number {
    return 0;
  }
}

/** A connection to a node of a cluster that waits for replicas. */
export interface NodeConnection extends ReplicaConnection {
  pipeline(): AskingPipeline;
}

/** A connection that waits for replicas, and whose scripts are sent with ASKING. */
export class AskingConnection implements ReplicaConnection {
  constructor(private readonly connection: NodeConnection) {}

  get status(): string {
    return this.connection.status;
  }

  connect(): Promise<void> {
    return this.connection.connect();
  }

  disconnect(reconnect?: boolean): void {
    this.connection.disconnect(reconnect);
  }

  wait(replicas: number, timeoutMs: number): Promise<unknown> {
    return this.connection.wait(replicas, timeoutMs);
  }

  info(section: string): Promise<unknown> {
    return this.connection.info(section);
  }

  pipeline(): ReplicaPipeline {
    return withAsking(this.connection.pipeline());
  }

  on(event: 'connect' | 'ready' | 'close' | 'error', listener: (error: Error) => void): unknown {
    return this.connection.on(event as 'error', listener);
  }
}

/** Returns a pipeline that sends ASKING before each script and leaves out the replies to ASKING. */
function withAsking(pipeline: AskingPipeline): ReplicaPipeline {
  const askingAt = new Set<number>();
  let length = 0;
  return {
    eval: (script, keyCount, ...args) => {
      askingAt.add(length);
      length += 2;
      pipeline.asking();
      return pipeline.eval(script, keyCount, ...args);
    },
    wait: (replicas, timeoutMs) => {
      length += 1;
      return pipeline.wait(replicas, timeoutMs);
    },
    exec: async () => (await pipeline.exec())?.filter((_, i) => !askingAt.has(i)) ?? null,
  };
}
