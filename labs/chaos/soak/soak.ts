import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { forkSource } from '../../../test/support/lock-process.js';
import { randomFrom } from '../../../test/support/random.js';
import { type RedisServer, startRedis } from '../../../test/support/redis/index.js';
import { eventually } from '../../../test/support/redis-locks.js';
import { startLocks } from '../../../test/support/chaos/workload/locks.js';
import { PREFIX } from '../../../test/support/chaos/workload/orders.js';
import { growthOf, type Sample } from '../../../test/support/chaos/growth.js';
import type { SoakReport, SoakTask } from './worker.js';

/** Options of the soak test. */
export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly say: (line: string) => void;
}

const VETERANS = 2;
const GUESTS = 3;
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
    this.child.on('message', (report: SoakReport) => this.onReport(report));
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
    const begunAt = performance.now();
    const left = this.signal('SIGTERM').then(() => true);
    if (!(await Promise.race([left, sleep(EXIT_MS, false, { ref: false })]))) {
      await this.signal('SIGKILL');
      this.faults.push(`it was still running ${Math.round(performance.now() - begunAt)} ms after SIGTERM`);
    }
  }

  private onReport(report: SoakReport): void {
    if (report.kind === 'ready') this.ready = true;
    else if (report.kind === 'fault') this.faults.push(report.error);
    else {
      this.samples.push(report.sample);
      this.locks = report.locks;
    }
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
  private readonly counts = { joined: 0, left: 0, killed: 0, restarts: 0 };
  private mostKeys = 0;

  constructor(
    private readonly server: RedisServer,
    private readonly admin: Redis,
    private readonly random: () => number,
  ) {}

  async run(ms: number, say: (line: string) => void): Promise<readonly string[]> {
    const joining = Array.from({ length: VETERANS + GUESTS }, () => this.join());
    const members = await Promise.all(joining);
    const veterans = members.slice(0, VETERANS);
    const guests = members.slice(VETERANS);
    const until = performance.now() + ms;
    for (let reportedAt = performance.now(); performance.now() < until;) {
      await sleep(500 + this.random() * 2_500);
      await this.trouble(guests);
      await this.countKeys();
      if (performance.now() - reportedAt < 30_000) continue;
      reportedAt = performance.now();
      say(`load: ${Math.round((until - reportedAt) / 1_000)} s left, ${this.summary()}`);
    }
    await Promise.all([...veterans, ...guests].map((member) => member.leave()));
    for (const veteran of veterans) this.faults.push(...growthOf(veteran.samples));
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
    const { url } = this.server;
    this.counts.joined += 1;
    const task = { redis: url, prefix: PREFIX, resources: RESOURCES, callers: CALLERS, seed, graceMs: GRACE_MS };
    const member = new SoakMember(task);
    this.all.push(member);
    return member.started();
  }

  /** Kills or stops one of the guests, or restarts the server. */
  private async trouble(guests: SoakMember[]): Promise<void> {
    const kind = this.random();
    if (kind < 0.25) {
      this.counts.restarts += 1;
      await this.server.kill();
      await sleep(this.random() * 1_500);
      await this.server.restart();
      return;
    }
    const place = Math.floor(this.random() * guests.length);
    if (kind < 0.6) {
      this.counts.killed += 1;
      await guests[place].signal('SIGKILL');
    } else {
      this.counts.left += 1;
      await guests[place].leave();
    }
    guests[place] = await this.join();
  }

  private async countKeys(): Promise<void> {
    const keys = await this.admin.dbsize();
    this.mostKeys = Math.max(this.mostKeys, keys);
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
    const { joined, left, killed, restarts } = this.counts;
    const locks = this.all.reduce((sum, member) => sum + member.locks, 0);
    const heap = this.all
      .slice(0, VETERANS)
      .map(({ samples }) => ((samples.at(-1)?.heapBytes ?? 0) / 2 ** 20).toFixed(1));
    const events = `${joined} joined, ${left} left, ${killed} killed, ${restarts} restarts of Redis`;
    return `${locks} locks, ${events}, ${this.mostKeys} keys at most, heaps of the veterans ${heap.join(' and ')} MiB`;
  }
}
