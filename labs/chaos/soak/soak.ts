import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startLocks } from '../../../test/support/chaos/workload/locks.js';
import { PREFIX } from '../../../test/support/chaos/workload/orders.js';
import { forkSource } from '../../../test/support/lock-process.js';
import { randomFrom } from '../../../test/support/random.js';
import { type RedisServer, startRedis } from '../../../test/support/redis/index.js';
import { eventually } from '../../../test/support/redis-locks.js';
import type { Sample, SoakReport, SoakTask } from './worker.js';

/** Options of the soak test. */
export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly say: (line: string) => void;
}

/** These stay to the end. All others may be killed or stopped. */
const VETERANS = 2;
const MEMBERS = 5;
const CALLERS = 20;
const RESOURCES = Array.from({ length: 10 }, (_, id) => `goods:${id}`);
/** How many of them are shared or have permits. */
const SHARED = 4;
/** A lock and a queue for each resource, the holders of a shared one, and one fence for all. */
const MOST_KEYS = 2 * RESOURCES.length + SHARED + 1;
const GRACE_MS = 2_000;
/** On top of the grace: the replies of the releases, the end of the connection, and a busy machine. */
const EXIT_MS = GRACE_MS + 4_000;
const START_MS = 60_000;

/** How much may remain at the end, by its value before. The allowance covers what garbage collection leaves. */
const ALLOWED: Record<keyof Sample, (before: number) => number> = {
  heapBytes: (before) => before * 1.1 + 2 * 2 ** 20,
  timers: (before) => before + 10,
  sockets: (before) => before + 1,
};
/** Fewer samples are not conclusive. */
const LEAST_SAMPLES = 12;

/**
 * Returns what has grown. Compares the medians of the second and the last quarter, because the first quarter is
 * warm-up. Medians, because a sample may be taken while a server is down.
 */
function growthOf(samples: readonly Sample[]): readonly string[] {
  if (samples.length < LEAST_SAMPLES) return [`only ${samples.length} samples were taken, of ${LEAST_SAMPLES}`];
  const quarter = Math.floor(samples.length / 4);
  const medianOf = (some: readonly Sample[], what: keyof Sample): number =>
    some.map((sample) => sample[what]).toSorted((one, other) => one - other)[Math.floor(some.length / 2)];
  return (Object.keys(ALLOWED) as (keyof Sample)[]).flatMap((what) => {
    const before = medianOf(samples.slice(quarter, 2 * quarter), what);
    const after = medianOf(samples.slice(-quarter), what);
    return after > ALLOWED[what](before) ? [`${what} grew from ${before} to ${after}`] : [];
  });
}

/** A process under load. */
class SoakMember {
  readonly samples: Sample[] = [];
  readonly faults: string[] = [];
  readonly exited: Promise<void>;
  locks = 0;
  private readonly child: ChildProcess;
  private ready = false;

  constructor(task: SoakTask) {
    this.child = forkSource('../../labs/chaos/soak/worker.ts', task, {}, ['--expose-gc']);
    this.child.on('message', (report: SoakReport) => {
      if (report.kind === 'ready') this.ready = true;
      else if (report.kind === 'fault') this.faults.push(report.error);
      else {
        this.samples.push(report.sample);
        this.locks = report.locks;
      }
    });
    this.exited = new Promise((resolve) => void this.child.once('exit', () => resolve()));
  }

  async started(): Promise<this> {
    await eventually('it is ready', () => this.ready || this.faults.length > 0, START_MS);
    return this;
  }

  signal(name: NodeJS.Signals): Promise<void> {
    this.child.kill(name);
    return this.exited;
  }

  /** Sends SIGTERM. Records a fault if the process takes longer than `EXIT_MS`. */
  async leave(): Promise<void> {
    const left = this.signal('SIGTERM').then(() => true);
    if (await Promise.race([left, sleep(EXIT_MS, false, { ref: false })])) return;
    await this.signal('SIGKILL');
    this.faults.push(`it was still running ${EXIT_MS} ms after SIGTERM`);
  }
}

/**
 * Runs full load while processes join, leave and are killed, and Redis is killed and restarted. Returns the failures.
 */
export async function soak({ minutes, seed, say }: SoakOptions): Promise<readonly string[]> {
  const server = await startRedis({ local: true });
  const admin = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 10, disconnectTimeout: 50 });
  admin.on('error', () => undefined);
  const load = new Soak(server, admin, randomFrom(seed));
  try {
    return await load.run(minutes * 60_000, say);
  } finally {
    await load.end();
    admin.disconnect();
    await server.stop();
  }
}

class Soak {
  private readonly all: SoakMember[] = [];
  private readonly faults: string[] = [];
  private readonly counts = { left: 0, killed: 0, restarts: 0, 'keys at most': 0 };

  constructor(
    private readonly server: RedisServer,
    private readonly admin: Redis,
    private readonly random: () => number,
  ) {}

  async run(ms: number, say: (line: string) => void): Promise<readonly string[]> {
    const members = await Promise.all(Array.from({ length: MEMBERS }, () => this.join()));
    const until = performance.now() + ms;
    for (let reportedAt = performance.now(); performance.now() < until;) {
      await sleep(500 + this.random() * 2_500);
      await this.trouble(members);
      await this.countKeys();
      if (performance.now() - reportedAt < 30_000) continue;
      reportedAt = performance.now();
      say(`load: ${Math.round((until - reportedAt) / 1_000)} s left, ${this.summary()}`);
    }
    await Promise.all(members.map((member) => member.leave()));
    for (const veteran of members.slice(0, VETERANS)) this.faults.push(...growthOf(veteran.samples));
    for (const member of this.all) this.faults.push(...member.faults);
    await this.checkLeftovers();
    say(`load: ${this.summary()}`);
    return this.faults.map((fault) => `load: ${fault}`);
  }

  async end(): Promise<void> {
    await Promise.all(this.all.map((member) => member.signal('SIGKILL')));
  }

  private join(): Promise<SoakMember> {
    const seed = Math.floor(this.random() * 2 ** 31);
    const { url: redis } = this.server;
    const member = new SoakMember({
      redis,
      prefix: PREFIX,
      resources: RESOURCES,
      callers: CALLERS,
      seed,
      graceMs: GRACE_MS,
    });
    this.all.push(member);
    return member.started();
  }

  /** Kills or stops a member that is not a veteran, or restarts the server. */
  private async trouble(members: SoakMember[]): Promise<void> {
    const kind = this.random();
    if (kind < 0.25) {
      this.counts.restarts += 1;
      await this.server.kill();
      await sleep(this.random() * 1_500);
      await this.server.restart();
      return;
    }
    const place = VETERANS + Math.floor(this.random() * (MEMBERS - VETERANS));
    const isKilled = kind < 0.6;
    this.counts[isKilled ? 'killed' : 'left'] += 1;
    await (isKilled ? members[place].signal('SIGKILL') : members[place].leave());
    members[place] = await this.join();
  }

  private async countKeys(): Promise<void> {
    const keys = await this.admin.dbsize();
    this.counts['keys at most'] = Math.max(this.counts['keys at most'], keys);
    if (keys > MOST_KEYS) this.faults.push(`${keys} keys, but at most ${MOST_KEYS} are needed`);
  }

  /** Locks every resource once, which removes the keys of killed processes, and then expects none. */
  private async checkLeftovers(): Promise<void> {
    const terms = { ttlMs: 1_000, waitMs: 10_000, requestTimeoutMs: 1_000 };
    const last = await startLocks({ store: 'token', places: [this.server.url], terms, client: undefined });
    for (const resource of RESOURCES) await last.service.using(resource, () => undefined);
    await last.close();
    const keys = (await this.admin.keys('*')).filter((key) => !key.endsWith('|fence'));
    if (keys.length > 0) this.faults.push(`left behind: ${keys.join(', ')}`);
  }

  private summary(): string {
    const locks = this.all.reduce((sum, member) => sum + member.locks, 0);
    const counts = Object.entries(this.counts).map(([what, count]) => `${count} ${what}`);
    const heap = this.all
      .slice(0, VETERANS)
      .map(({ samples }) => Math.round((samples.at(-1)?.heapBytes ?? 0) / 2 ** 20));
    return [`${locks} locks`, ...counts, `heaps of the veterans ${heap.join(' and ')} MiB`].join(', ');
  }
}
