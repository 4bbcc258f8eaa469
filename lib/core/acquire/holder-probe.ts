import { runOutside } from '../context/async-context.js';
import type { LockStore } from '../store/lock-store.js';
import type { StoreHealth } from '../store/store-health.js';
import type { Clock, Timer } from '../time/clock.js';
import type { LimitRequest } from '../time/timeout-pool.js';

/** How often a server is probed, in milliseconds. */
const PROBE_EVERY_MS = 1_000;

/**
 * Detects a silent server while callers wait behind a holder of their own instance. Such callers send no requests that
 * would show the silence. Each server gets one probe a second, however many callers wait.
 */
export class HolderProbe {
  private timer: Timer | undefined;

  /** @param keysBehindOwn yields the keys for which callers wait behind a holder of this instance. */
  constructor(
    private readonly keysBehindOwn: () => Iterable<string>,
    private readonly store: Pick<LockStore, 'inspect' | 'serverOf'>,
    private readonly clock: Clock,
    private readonly limitRequest: LimitRequest,
    private readonly health: Pick<StoreHealth, 'onNoReply' | 'onReply'>,
    private readonly requestTimeoutMs: number,
  ) {}

  /** Called when a caller waits behind a holder of this instance. Probes until no caller does. */
  start(): void {
    this.timer ??= runOutside(() => this.clock.schedule(PROBE_EVERY_MS, () => this.probe(), true));
  }

  close(): void {
    this.timer?.cancel();
  }

  private probe(): void {
    this.timer = undefined;
    const probed = new Set<string | undefined>();
    for (const key of this.keysBehindOwn()) {
      const server = this.store.serverOf?.(key);
      if (!probed.has(server)) this.ask(key);
      probed.add(server);
      if (this.store.serverOf === undefined) break;
    }
    if (probed.size > 0) this.start();
  }

  private ask(key: string): void {
    const { clock, health, requestTimeoutMs } = this;
    const sentAt = clock.now();
    const onTimeout = (): void => health.onNoReply(key, `no reply within ${requestTimeoutMs} ms`, sentAt);
    const timer = this.limitRequest(key, { onTimeout }, sentAt);
    const onReply = (): void => {
      timer.cancel();
      health.onReply(key);
    };
    // The store reports a server that it cannot reach.
    this.store.inspect(key).then(onReply, () => timer.cancel());
  }
}
