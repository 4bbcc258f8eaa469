import { type RedisOptions, SentinelConnector } from 'ioredis';
import type { Clock } from '../core/time/clock.js';

type Connect = SentinelConnector['connect'];

/**
 * Whoever has said nothing for this long, a server or a Sentinel, hangs or is cut off: another may have its place by now. Each time
 * that nothing was said it is longer, up to what ioredis waits for a connection: the way may only be slow.
 */
export const SILENCE_MS = 2_000;
const LONGEST_SILENCE_MS = 10_000;

/** ioredis' way to the master, mended where a failover would end the client, or leave it with a server that hangs. */
export function sentinelConnector(clock: Clock): RedisOptions['Connector'] {
  class Mended extends SentinelConnector {
    /** Since there was a connection, and a detector with it. */
    private detecting = false;
    private silenceMs = SILENCE_MS;

    /**
     * ioredis leaves its failover detector in place when a connection ends by itself. Told of the failover while the next
     * connection is looked for, it would call that off, and end the client for good: so it is put away before.
     */
    override async connect(...args: Parameters<Connect>): ReturnType<Connect> {
      if (this.detecting) this.disconnect();
      this.detecting = false;
      const stream = await super.connect(...args);
      const { silenceMs } = this;
      const judge = (): void => {
        this.silenceMs = stream.bytesRead > 0 ? SILENCE_MS : Math.min(silenceMs * 2, LONGEST_SILENCE_MS);
        if (stream.bytesRead === 0) stream.destroy(new Error(`no answer within ${silenceMs} ms`));
      };
      const silence = clock.schedule(silenceMs, judge, true);
      stream.once('connect', () => (this.detecting = true));
      stream.once('close', () => {
        silence.cancel();
        // Called off while it came about: ioredis has made a detector behind that.
        if (!this.connecting) this.disconnect();
      });
      return stream;
    }
  }
  return Mended as NonNullable<RedisOptions['Connector']>;
}
