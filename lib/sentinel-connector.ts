import { type RedisOptions, SentinelConnector } from 'ioredis';
import type { Clock } from './core/clock.js';

type Connect = SentinelConnector['connect'];

/** Whoever has said nothing for this long, a server or a Sentinel, hangs or is cut off: another may have its place by now. */
export const SILENCE_MS = 2_000;

/** ioredis' way to the master, mended where a failover would end the client, or leave it with a server that hangs. */
export function sentinelConnector(clock: Clock): RedisOptions['Connector'] {
  class Mended extends SentinelConnector {
    /** Since there was a connection, and a detector with it. */
    private detecting = false;

    /**
     * ioredis leaves its failover detector in place when a connection ends by itself. Told of the failover while the next
     * connection is looked for, it would call that off, and end the client for good: so it is put away before.
     */
    override async connect(...args: Parameters<Connect>): ReturnType<Connect> {
      if (this.detecting) this.disconnect();
      this.detecting = false;
      const stream = await super.connect(...args);
      const cut = (): void => {
        if (stream.bytesRead === 0) stream.destroy(new Error(`no answer within ${SILENCE_MS} ms`));
      };
      const silence = clock.schedule(SILENCE_MS, cut, true);
      stream.once('connect', () => (this.detecting = true));
      stream.once('close', () => silence.cancel());
      return stream;
    }
  }
  return Mended as NonNullable<RedisOptions['Connector']>;
}
