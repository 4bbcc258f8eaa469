import type { Clock } from '../../core/time/clock.js';
import { Pauses } from '../../core/time/pauses.js';
import type { ForceReleaseRequest } from '../../core/store/lock-store.js';
import { forcedRelease } from '../../redis/forced-release.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { wholeMs } from '../../redis/redis-script.js';
import type { RedisNode } from '../../redis/topology.js';
import type { TokenRequests } from './token-requests.js';
import { forceReleaseScript, holdersScript, lockValueScript, notifyForcedScript } from './token-scripts.js';
import type { TokenTopology } from './token-topology.js';
import { otherWireForced, otherWireOf } from '../../redis/wire.js';

/** What holds a lock, as the script compares it. */
interface Holders {
  /** The value of an exclusive lock, or the entries of the sharers, each followed by a comma. */
  readonly held: string;
  readonly isShared: boolean;
  /** The token of an exclusive lock. Undefined for the value of another system. */
  readonly token: number | undefined;
}

/**
 * The pauses before a notice is repeated to an instance that has not received it, in milliseconds. Most of them are in
 * the first 100 ms, in which a new hold subscribes its instance. In a cluster that takes up to 2 s.
 */
const REPEAT_AFTER_MS = [10, 10, 20, 20, 20, 20, 40, 80, 160, 320, 640, 1_280];

/**
 * Releases locks by force. It reads the holders first and then ends exactly these. A client sends a script again if its
 * connection ended before the reply, and the next holder must not lose its lock by that.
 */
export class ForcedReleases {
  /** The pauses before a notice is repeated. */
  private readonly pauses: Pauses;
  /** The notices that are repeated. */
  private readonly notices = new Set<Promise<void>>();
  private isClosed = false;

  constructor(
    private readonly topology: TokenTopology,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly requests: Pick<TokenRequests, 'flush' | 'handOffMore'>,
  ) {
    this.pauses = new Pauses(clock);
  }

  /**
   * Rejects with `LockUnavailableError`, even if the lock may have been released. Rejects with `LockConfigError` if an
   * instance of another wire version holds it.
   */
  release(request: ForceReleaseRequest): Promise<boolean> {
    const { key, ifToken } = request;
    return forcedRelease(this.clock, this.requestTimeoutMs, async (checkTime) => {
      // Requests of this tick come first.
      this.requests.flush();
      const holders = await this.holdersOf(key);
      checkTime();
      if (holders === undefined || (ifToken !== undefined && holders.token !== ifToken)) return false;
      return this.end(holders, request);
    });
  }

  /** Stops repeating notices. */
  close(): void {
    this.isClosed = true;
    this.pauses.endAll();
  }

  /** Waits until the former holders are notified, or notices are no longer repeated: at most 3 s. */
  async notified(): Promise<void> {
    await Promise.all(this.notices);
  }

  private async holdersOf(key: string): Promise<Holders | undefined> {
    const [lock, , queue] = this.topology.keysOf(key);
    // Two scripts with one key each: while a cluster migrates a slot, a script with several keys is refused.
    const [value, sharers] = await Promise.all([
      this.topology.sendToNode(key, ({ connection }) => lockValueScript.run(connection, [lock], [])),
      this.topology.sendToNode(key, ({ connection }) => holdersScript.run(connection, [queue], [])),
    ]);
    const other = [...(value === undefined ? [] : [value.held]), ...sharers].map(otherWireOf).find(Boolean);
    if (other !== undefined) throw otherWireForced(other.version);
    if (value !== undefined) return { ...value, isShared: false };
    if (sharers.length === 0) return undefined;
    return { held: sharers.map((entry) => `${entry},`).join(''), isShared: true, token: undefined };
  }

  private async end({ held, isShared }: Holders, request: ForceReleaseRequest): Promise<boolean> {
    const { key, tokens, handoffMs } = request;
    const args = [held, isShared ? '1' : '0', String(tokens), wholeMs(handoffMs)];
    args.push(...this.topology.handoffArgs(key));
    const reply = await this.send(key, ({ connection }) => this.run(connection, key, args));
    if (reply.more) this.requests.handOffMore(request);
    for (const entry of reply.unnotified) {
      const notice = this.notifyAgain(key, entry).finally(() => this.notices.delete(notice));
      this.notices.add(notice);
    }
    return reply.ended > 0;
  }

  private async run(connection: RedisConnection, key: string, args: readonly string[]) {
    const { losses } = connection;
    const reply = await forceReleaseScript.run(connection, this.topology.keysOf(key), args);
    // The client resent the script, and its first run may have released the lock.
    if (reply.ended === 0 && connection.losses !== losses) throw new Error('the connection ended before the reply');
    return reply;
  }

  /** Notifies a former holder again, which may subscribe just now. */
  private async notifyAgain(key: string, entry: string): Promise<void> {
    const args = [entry, ...this.topology.handoffArgs(key)];
    const [lock] = this.topology.keysOf(key);
    for (const pauseMs of REPEAT_AFTER_MS) {
      await this.pauses.pause(pauseMs);
      if (this.isClosed) return;
      try {
        const receivers = await this.send(key, ({ connection }) => notifyForcedScript.run(connection, [lock], args));
        if (receivers > 0) return;
      } catch {
        // The holder notices at its next renewal.
        return;
      }
    }
  }

  private send<T>(key: string, send: (node: RedisNode) => Promise<T>): Promise<T> {
    return this.topology.sendToNode(key, (node) => {
      // In the client's queue it would wait through an outage.
      if (!node.failsFast) return Promise.reject(new Error('there is no connection'));
      return send(node);
    });
  }
}
