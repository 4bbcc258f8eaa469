import { type RedisOptions, SentinelConnector } from 'ioredis';
import type { Clock } from '../core/time/clock.js';

type Connect = SentinelConnector['connect'];

/**
 * A server or Sentinel that sends nothing for this long is given up, because it may hang and another may have its
 * place. The time doubles with each silent connection, up to ioredis' own connect timeout, because the network may only
 * be slow.
 */
export const SILENCE_MS = 2_000;
const LONGEST_SILENCE_MS = 10_000;

/**
 * Returns ioredis' Sentinel connector with two changes. It survives a failover that happens while it looks for the
 * master, which ends the client for good in ioredis 6.0. It gives up a server that accepts the connection and sends
 * nothing.
 */
export function sentinelConnector(clock: Clock): RedisOptions['Connector'] {
  class ResilientSentinelConnector extends SentinelConnector {
    /** Whether a failover detector may be left from the last connection. */
    private hasDetector = false;
    private silenceMs = SILENCE_MS;

    override async connect(...args: Parameters<Connect>): ReturnType<Connect> {
      // ioredis keeps the detector of a connection that has ended. A failover would make it cancel this attempt for
      // good.
      if (this.hasDetector) this.disconnect();
      this.hasDetector = false;
      const stream = await super.connect(...args);
      const { silenceMs } = this;
      const destroyIfSilent = (): void => {
        this.silenceMs = stream.bytesRead > 0 ? SILENCE_MS : Math.min(silenceMs * 2, LONGEST_SILENCE_MS);
        if (stream.bytesRead === 0) stream.destroy(new Error(`no answer within ${silenceMs} ms`));
      };
      const silenceTimer = clock.schedule(silenceMs, destroyIfSilent, true);
      stream.once('connect', () => (this.hasDetector = true));
      stream.once('close', () => {
        silenceTimer.cancel();
        // The attempt was cancelled while it connected. ioredis has made a detector after that.
        if (!this.connecting) this.disconnect();
      });
      return stream;
    }
  }
  return ResilientSentinelConnector as NonNullable<RedisOptions['Connector']>;
}
