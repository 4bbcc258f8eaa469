import type { AskingPipeline } from './cluster-client.js';
import type { ReplicaConnection, ReplicaPipeline } from '../../stores/token/replication/replica-options.js';

/** A connection to a node of a cluster. */
export interface NodeConnection extends ReplicaConnection {
  pipeline(): ReplicaPipeline & AskingPipeline;
}

/** Sends each script right behind ASKING: a node that is getting a slot has its keys before it has the slot. */
export class AskingConnection implements ReplicaConnection {
  constructor(private readonly link: NodeConnection) {}

  get status(): string {
    return this.link.status;
  }

  connect(): Promise<void> {
    return this.link.connect();
  }

  disconnect(reconnect?: boolean): void {
    this.link.disconnect(reconnect);
  }

  wait(replicas: number, timeoutMs: number): Promise<unknown> {
    return this.link.wait(replicas, timeoutMs);
  }

  info(section: string): Promise<unknown> {
    return this.link.info(section);
  }

  pipeline(): ReplicaPipeline {
    const pipeline = this.link.pipeline();
    const asked = new Set<number>();
    let length = 0;
    return {
      eval: (script, keyCount, ...args) => {
        asked.add(length);
        length += 2;
        pipeline.asking();
        return pipeline.eval(script, keyCount, ...args);
      },
      wait: (replicas, timeoutMs) => {
        length += 1;
        return pipeline.wait(replicas, timeoutMs);
      },
      exec: async () => (await pipeline.exec())?.filter((_, i) => !asked.has(i)) ?? null,
    };
  }

  on(event: 'connect' | 'ready' | 'close' | 'error', listener: (error: Error) => void): unknown {
    return this.link.on(event as 'error', listener);
  }
}
