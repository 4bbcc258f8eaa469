import type { RedisOptions, SentinelConnector } from 'ioredis';
import type { Clock } from '../clock/clock.js';

type Connect = SentinelConnector['connect'];
type SentinelConnectionOptions = ConstructorParameters<typeof SentinelConnector>[0];

/**
 * A server or Sentinel that sends nothing for this long is given up, because it may hang and another may have its
 * place. The time doubles with each silent connection, up to ioredis' own connect timeout, because the network may only
 * be slow.
 */
export const SILENCE_MS = 2_000;
const LONGEST_SILENCE_MS = 10_000;

/**
 * Returns ioredis' Sentinel connector with three changes. It survives a failover that happens while it looks for the
 * master, which ends the client permanently in ioredis 6.0. It gives up a server that accepts the connection and sends
 * nothing. A closed client keeps no process alive.
 *
 * @param Base the connector of ioredis.
 */
export function sentinelConnector(Base: typeof SentinelConnector, clock: Clock): RedisOptions['Connector'] {
  class ResilientSentinelConnector extends Base {
    /** Whether a failover detector may be left from the last connection. */
    private hasDetector = false;
    private silenceMs = SILENCE_MS;

    constructor(options: SentinelConnectionOptions) {
      super(options);
      limitSentinelConnections(this, options.disconnectTimeout);
    }

    override async connect(...args: Parameters<Connect>): ReturnType<Connect> {
      // ioredis keeps the detector of a connection that has ended. A failover would make it cancel this attempt
      // permanently.
      if (this.hasDetector) this.disconnect();
      const stream = await super.connect(...args);
      const { silenceMs } = this;
      const destroyIfSilent = (): void => {
        this.silenceMs = stream.bytesRead > 0 ? SILENCE_MS : Math.min(silenceMs * 2, LONGEST_SILENCE_MS);
        if (stream.bytesRead === 0) stream.destroy(new Error(`no reply within ${silenceMs} ms`));
      };
      const silenceTimer = clock.schedule(silenceMs, destroyIfSilent, true);
      stream.once('connect', () => (this.hasDetector = true));
      stream.once('close', () => {
        silenceTimer.cancel();
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

/**
 * Gives the connections to Sentinels the `disconnectTimeout` of the client. ioredis leaves them its default of 2 s, for
 * which they would keep the process alive.
 */
function limitSentinelConnections(connector: SentinelConnector, disconnectTimeout: number | undefined): void {
  const connectToSentinel: unknown = Reflect.get(connector, 'connectToSentinel');
  // A private method of ioredis 5 and 6. Without it the process ends later.
  if (typeof connectToSentinel !== 'function') return;
  const limited = (endpoint: unknown, options?: object): unknown =>
    connectToSentinel.call(connector, endpoint, { ...options, disconnectTimeout });
  Reflect.set(connector, 'connectToSentinel', limited);
}
