import { asked } from '../../support/asked.js';
import type { AcquireReply, LockMode } from '../../../lib/contract/store.js';
import { token } from '../../../lib/stores/token/token.js';
import type { TokenStore } from '../../../lib/stores/token/token.store.js';
import { SystemClock } from '../../../lib/clock/clock.js';
import { eventually } from '../../support/async.js';
import type { OpenClient } from '../../support/client-libraries.js';
import { asPort } from '../../support/client-port.js';

/** A lease that is longer than any test, in milliseconds. */
export const LONG_MS = 60_000;

const HANDOFF_MS = 30_000;

let instances = 0;

const nothing = (): void => undefined;

/** What an instance's owners ask for. */
interface Asked {
  readonly leaseMs?: number;
  readonly wait?: boolean;
  readonly key?: string;
}

/** One instance: a store, and owners with names. */
export class Instance {
  readonly id = `i${process.pid}-${(instances += 1)}`;
  /** The names of the owners that were woken. */
  readonly wakes: string[] = [];
  readonly wokenKeys: string[] = [];
  readonly store: TokenStore;
  private readonly names: string[] = [];
  private readonly modes = new Map<string, LockMode>();

  constructor(
    readonly connection: OpenClient,
    readonly key: string,
    requestTimeoutMs = 5_000,
  ) {
    const port = asPort(connection.client);
    const redis = () => port;
    const context = { clock: new SystemClock(), requestTimeoutMs, prefix: 'lock_', redis, open: redis };
    this.store = token()(context) as TokenStore;
    this.store.listen({
      instanceId: this.id,
      onWake: (owner, woken) => {
        this.wokenKeys.push(woken);
        this.wakes.push(this.names[Number(owner.split(':')[1])]);
      },
      onReleased: nothing,
      onSubscribed: nothing,
      onDown: nothing,
      onUp: nothing,
      onReconnected: nothing,
      onExtendFailed: nothing,
      onDegraded: nothing,
      onRecovered: nothing,
    });
  }

  /** Subscribes, so that requests join the queue. */
  async listens(): Promise<void> {
    const key = `${this.key}~`;
    await this.acquire('~holder', { key });
    let queued = false;
    await eventually('an owner joins the queue', async () => {
      const reply = await this.acquire('~waiter', { key });
      queued = reply.status === 'held' && reply.queued;
      return queued;
    });
    await this.release('~waiter', 0, key);
    await this.release('~holder', 0, key);
    this.wakes.length = 0;
  }

  setMode(mode: LockMode, ...names: readonly string[]): void {
    for (const name of names) this.modes.set(name, mode);
  }

  owned(name: string, key = this.key) {
    if (!this.names.includes(name)) this.names.push(name);
    const owner = `${this.id}:${this.names.indexOf(name)}`;
    return { key, owner, mode: this.modes.get(name) ?? 'exclusive' };
  }

  acquire(name: string, { leaseMs = LONG_MS, wait = true, key = this.key }: Asked = {}): Promise<AcquireReply> {
    return asked(this.store).acquire({ ...this.owned(name, key), leaseMs, wait, handoffMs: HANDOFF_MS });
  }

  async all(...names: readonly string[]): Promise<void> {
    for (const name of names) await this.acquire(name);
  }

  /** Returns the status of the reply to each owner, which does not wait. */
  async statuses(...names: readonly string[]): Promise<readonly string[]> {
    const found: string[] = [];
    for (const name of names) found.push((await this.acquire(name, { wait: false })).status);
    return found;
  }

  async tokenOf(name: string): Promise<number> {
    const reply = await this.acquire(name);
    if (reply.status !== 'granted' || reply.token === undefined) throw new Error(`${name}: ${JSON.stringify(reply)}`);
    return reply.token;
  }

  release(name: string, closedForMs = 0, key = this.key): Promise<boolean> {
    return asked(this.store).release({ ...this.owned(name, key), closedForMs, handoffMs: HANDOFF_MS });
  }

  async extend(name: string, leaseMs = LONG_MS): Promise<string> {
    return (await this.store.extend([{ ...this.owned(name), leaseMs }]))[0];
  }

  force(ifToken?: number): Promise<boolean> {
    return this.store.forceRelease({ key: this.key, handoffMs: HANDOFF_MS, ifToken });
  }

  async woken(...names: readonly string[]): Promise<void> {
    await eventually(`${names.join()} are woken, not ${this.wakes.join()}`, () => this.wakes.length >= names.length);
    const given = this.wakes.toSorted().join();
    if (given !== [...names].toSorted().join()) throw new Error(`woken: ${given}`);
  }

  async close(): Promise<void> {
    await this.store.close();
    this.connection.disconnect();
  }
}
