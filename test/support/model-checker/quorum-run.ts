import type { Lock, LockService } from 'nestjs-redis-lock';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { QuorumStore } from '../../../lib/stores/quorum/quorum.store.js';
import { randomFrom } from '../random.js';
import { ModelClient, ModelNode, ProcessClock, RandomClock } from './quorum-model.js';

/** One module instance. */
interface Process {
  readonly clock: ProcessClock;
  readonly clients: readonly ModelClient[];
  readonly store: QuorumStore;
  readonly locks: LockService;
}

/** Processes that contend for a lock on several masters, with random faults. */
export class QuorumRun {
  /** What must not happen: two holders at a time, and a token that does not rise. */
  readonly violations: string[] = [];
  grants = 0;
  private readonly world: RandomClock;
  private readonly nodes: readonly ModelNode[];
  private readonly processes: readonly Process[];
  private readonly held = new Set<Lock>();
  private lastToken = 0;
  private over = false;

  constructor(seed: number, nodes: number, processes: number) {
    this.world = new RandomClock(randomFrom(seed));
    this.nodes = Array.from({ length: nodes }, () => new ModelNode(this.world));
    this.processes = Array.from({ length: processes }, () => this.start());
  }

  /** Runs for `faults` faults, and until all is settled. */
  async run(faults: number): Promise<void> {
    const workers = this.processes.flatMap((process) => [this.work(process), this.work(process)]);
    for (let i = 0; i < faults; i++) {
      await this.world.advance(this.world.upTo(300));
      this.fail();
    }
    this.over = true;
    await this.world.advance(10_000);
    await Promise.all(workers);
  }

  /** Acquires the lock once more in each process, without faults. */
  async visitAll(): Promise<void> {
    for (const { locks } of this.processes) {
      const visit = locks.using('goods:300', { waitMs: 2_000 }, (lock) => this.entered(lock));
      await this.world.advance(3_000);
      await visit;
    }
  }

  /** How many requests the stores keep. */
  get inFlightCount(): number {
    return this.processes.reduce((sum, { store }) => sum + store.inFlightCount, 0);
  }

  private start(): Process {
    const clock = new ProcessClock(this.world);
    const clients = this.nodes.map((node, i) => new ModelClient(this.world, clock, node, `node-${i}`));
    let store!: QuorumStore;
    const passing = { maxLocalPasses: 2, maxLocalHoldMs: 50 };
    const runtime = LockRuntime.start(
      { shutdownGraceMs: 0, store: (context) => (store = new QuorumStore(clients, { nodeTimeoutMs: 100 }, context)) },
      'default',
      { clock, passing },
    );
    return { clock, clients, store, locks: runtime.service };
  }

  private async work({ clock, locks }: Process): Promise<void> {
    const pause = (most: number): Promise<void> =>
      new Promise((resolve) => clock.schedule(this.world.upTo(most), resolve));
    while (!this.over) {
      const options = { ttlMs: this.pick([150, 400, 2_000]), waitMs: this.pick([0, 100, 1_000]) };
      const lock = await locks.acquire('goods:300', options).catch(() => undefined);
      if (lock !== undefined) {
        this.entered(lock);
        await pause(500);
        this.held.delete(lock);
        await lock.release().catch(() => false);
      }
      await pause(100);
    }
  }

  /** Checks a new holder. */
  private entered(lock: Lock): void {
    const { fencingToken } = lock;
    this.grants += 1;
    for (const { fencingToken: other, expiresInMs, signal } of this.held) {
      if (expiresInMs <= 0 || signal.aborted) continue;
      this.violations.push(`${fencingToken} is granted while ${other} holds for another ${expiresInMs} ms`);
    }
    if (fencingToken <= this.lastToken) this.violations.push(`${fencingToken} after ${this.lastToken}`);
    this.lastToken = Math.max(this.lastToken, fencingToken);
    this.held.add(lock);
  }

  private fail(): void {
    const { world } = this;
    const process = this.pick(this.processes);
    const node = this.pick(this.nodes);
    const faults: (() => void)[] = [
      () => this.pick(process.clients).reset(world.upTo(this.pick([100, 3_000]))),
      () => (node.hungUntil = world.now() + world.upTo(1_500)),
      () => process.clock.stop(world.upTo(1_500)),
      () => node.scripts.clear(),
      () => (node.aheadMs = this.pick([0, 0, 120_000, -120_000])),
      () => undefined,
    ];
    this.pick(faults)();
  }

  private pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.world.random() * from.length)];
  }
}
