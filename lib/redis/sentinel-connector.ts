import type { RedisOptions, SentinelConnector } from 'ioredis';

type Connect = SentinelConnector['connect'];

/**
 * Returns ioredis' Sentinel connector with one change. It survives a failover that happens while it looks for the
 * master, which ends the client permanently in ioredis 6.0.
 *
 * @param Base the connector of ioredis.
 */
export function sentinelConnector(Base: typeof SentinelConnector): RedisOptions['Connector'] {
  class ResilientSentinelConnector extends Base {
    /** Whether a failover detector may be left from the last connection. */
    private hasDetector = false;

    override async connect(...args: Parameters<Connect>): ReturnType<Connect> {
      // ioredis keeps the detector of a connection that has ended. A failover would make it cancel this attempt
      // permanently.
      if (this.hasDetector) this.disconnect();
      const stream = await super.connect(...args);
      stream.once('connect', () => (this.hasDetector = true));
      stream.once('close', () => {
        // The attempt was cancelled while it connected. ioredis has made a detector after that.
        if (!this.connecting && this.hasDetector) this.disconnect();
      });
      return stream;
    }

    override disconnect(): void {
      // Ending a detector twice starts timers for connections that have ended. They keep the process alive.
      this.hasDetector = false;
      super.disconnect();
    }
  }
  return ResilientSentinelConnector as NonNullable<RedisOptions['Connector']>;
}
