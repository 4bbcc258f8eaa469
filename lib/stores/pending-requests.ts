import type { KeyFilter, Servers } from '../contract/server-connection.js';
import { ServerSigns } from '../contract/server-signs.js';
import type { Clock } from '../clock/clock.js';
import { TimeoutPool } from '../clock/timeout-pool.js';
import { unavailableBecause } from '../redis/redis-errors.js';
import { type ExtendReply, type ExtendRequest, type StoreListener, UnansweredError } from '../contract/store.js';
import type { StoreContext } from './store-context.js';

/** A request whose outcome is expected. */
interface Pending {
  readonly key: string;
  fail(why: string): void;
}

/**
 * The requests of a store that have no outcome yet. A request ends by its reply, by the end of its connection, or when
 * its server has been silent for the time limit.
 */
export class PendingRequests {
  private readonly timeouts: TimeoutPool;
  private readonly clock: Clock;
  private readonly limitMs: number;
  private readonly pending = new Set<Pending>();

  constructor(
    { clock, requestTimeoutMs: limitMs }: Pick<StoreContext, 'clock' | 'requestTimeoutMs'>,
    /** Which connections show whether a server is alive. Without them, one request without a reply is enough. */
    private readonly servers: Servers,
    /** Called with each request that ends because its server is silent. */
    private readonly onSilent: (error: Error, server: string | undefined) => void,
  ) {
    this.clock = clock;
    this.limitMs = limitMs;
    this.timeouts = new TimeoutPool(clock, limitMs, new ServerSigns(servers, limitMs));
  }

  /**
   * Sends a request. Returns its reply.
   *
   * @param send gets a function that returns whether the request has ended. Nothing more is sent for it then.
   * @param subject what the request is for: `a lock`. Undefined: its errors are passed on as they are.
   * @throws UnansweredError if its connection ends or its server is silent.
   * @throws LockUnavailableError for other errors.
   */
  expect<T>(key: string, send: (isOver: () => boolean) => PromiseLike<T>, subject?: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const sentAt = this.clock.now();
      let isOver = false;
      const reply = send(() => isOver);
      const fail = (why: string): void => {
        end();
        reject(new UnansweredError(why));
      };
      const onTimeout = (): void => {
        const why = `no reply within ${this.limitMs} ms`;
        fail(why);
        this.onSilent(new UnansweredError(why), this.servers.serverOf?.(key));
      };
      const pending: Pending = { key, fail };
      const timer = this.timeouts.limitRequest(key, { onTimeout }, sentAt);
      this.pending.add(pending);
      const end = (): void => {
        isOver = true;
        timer.cancel();
        this.pending.delete(pending);
      };
      const onReply = (value: T): void => {
        end();
        resolve(value);
      };
      const onFailed = (error: unknown): void => {
        end();
        reject(subject === undefined ? error : unavailableBecause(error, subject));
      };
      void reply.then(onReply, onFailed);
    });
  }

  /**
   * Extends leases. The reply to a request that fails is `unknown`, and the listener gets its error.
   *
   * @param send begins with the request before it returns.
   */
  extend(
    requests: readonly ExtendRequest[],
    listener: Pick<StoreListener, 'onExtendFailed'> | undefined,
    send: (request: ExtendRequest) => Promise<ExtendReply>,
  ): Promise<readonly ExtendReply[]> {
    const extendOne = (request: ExtendRequest): Promise<ExtendReply> =>
      this.expect(request.key, () => send(request)).catch((error: unknown) => {
        // Silence and ended connections are reported for the whole server.
        if (!(error instanceof UnansweredError))
          listener?.onExtendFailed(request.key, unavailableBecause(error, 'a renewal'));
        return 'unknown' as const;
      });
    return Promise.all(requests.map(extendOne));
  }

  /** Ends the requests that were sent over a connection that has ended. */
  cut(concerns: KeyFilter = () => true): void {
    for (const request of Array.from(this.pending))
      if (concerns(request.key)) request.fail('the connection ended before the reply');
  }

  close(): void {
    this.timeouts.close();
  }
}
