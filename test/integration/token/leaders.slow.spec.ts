import { type ChildProcess } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../../support/async.js';
import type { LeaderEvent } from '../../support/leader-app.js';
import { forkSource } from '../../support/lock-process.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { uniquePrefix } from '../../support/shared-redis.js';

const TTL_MS = 30_000;

/** An application in its own process that campaigns for `report`. */
class Candidate {
  readonly events: LeaderEvent[] = [];
  readonly exited: Promise<void>;
  private readonly child: ChildProcess;

  constructor(redis: string, prefix: string) {
    this.child = forkSource('leader-app.ts', { redis, prefix, ttlMs: TTL_MS });
    this.child.on('message', (event: LeaderEvent) => this.events.push(event));
    this.exited = new Promise((resolve) => this.child.once('exit', () => resolve()));
  }

  get terms(): number {
    return this.events.filter(({ event }) => event === 'elected').length;
  }

  get isLeading(): boolean {
    // It may be elected before its application has started.
    return this.events.findLast(({ event }) => event !== 'started')?.event === 'elected';
  }

  get tokens(): number[] {
    return this.events.flatMap((each) => (each.event === 'elected' ? [each.token] : []));
  }

  signal(name: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): void {
    this.child.kill(name);
  }

  started(): Promise<void> {
    return eventually('the application has started', () => this.events.length > 0);
  }
}

let server: RedisServer;
let admin: Redis;
let candidates: Candidate[] = [];

/** Starts three applications. Returns the leader and the others. */
async function elect() {
  const prefix = uniquePrefix();
  candidates = [1, 2, 3].map(() => new Candidate(server.url, prefix));
  for (const candidate of candidates) await candidate.started();
  return leaderOf(candidates);
}

/** Ends the lease of the leader. */
async function endLease(): Promise<void> {
  const locks = (await admin.keys('*')).filter((key) => !key.includes('|'));
  expect(await admin.del(...locks)).toBe(1);
}

async function leaderOf(of: readonly Candidate[]) {
  await eventually('there is a leader', () => of.some(({ isLeading }) => isLeading));
  const leaders = of.filter(({ isLeading }) => isLeading);
  expect(leaders).toHaveLength(1);
  return { leader: leaders[0], others: of.filter((each) => each !== leaders[0]) };
}

beforeEach(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url).on('error', () => undefined);
});

afterEach(async () => {
  for (const candidate of candidates) candidate.signal('SIGKILL');
  await Promise.all(candidates.map(({ exited }) => exited));
  admin.disconnect();
  await server.stop();
});

describe('three processes with a method that runs while they lead', () => {
  it('one succeeds a leader that is killed, after its lease', async () => {
    const { leader, others } = await elect();
    leader.signal('SIGKILL');
    await leader.exited;
    await endLease();
    const next = await leaderOf(others);
    expect(next.leader.tokens[0]).toBeGreaterThan(leader.tokens[0]);
    expect(others.map(({ terms }) => terms)).toEqual(next.leader === others[0] ? [1, 0] : [0, 1]);
  });

  it('one succeeds a leader at its SIGTERM', async () => {
    const { leader, others } = await elect();
    leader.signal('SIGTERM');
    const next = await leaderOf(others);
    await leader.exited;
    expect(leader.events.at(-1)).toEqual({ event: 'deposed', reason: 'LockClosedError' });
    expect(next.leader.tokens[0]).toBeGreaterThan(leader.tokens[0]);
    const last = next.others[0];
    next.leader.signal('SIGTERM');
    expect((await leaderOf([last])).leader).toBe(last);
  });
});
