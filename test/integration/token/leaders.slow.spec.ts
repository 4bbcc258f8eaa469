import { type ChildProcess } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/async.js';
import type { LeaderEvent } from '../../support/leader-app.js';
import { forkSource } from '../../support/lock-process.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { uniquePrefix } from '../../support/shared-redis.js';

const TTL_MS = 2_000;

/** An application in its own process that campaigns for `report`. */
class Candidate {
  readonly events: LeaderEvent[] = [];
  readonly exited: Promise<void>;
  private readonly child: ChildProcess;

  constructor(redis: string, prefix: string, ttlMs = TTL_MS) {
    this.child = forkSource('leader-app.ts', { redis, prefix, ttlMs });
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
    return eventually('the application has started', () => this.events.length > 0, 60_000);
  }
}

let server: RedisServer;
let candidates: Candidate[] = [];

/** Starts three applications. Returns the leader and the others. */
async function elect(ttlMs?: number) {
  const prefix = uniquePrefix();
  candidates = [1, 2, 3].map(() => new Candidate(server.url, prefix, ttlMs));
  for (const candidate of candidates) await candidate.started();
  return leaderOf(candidates);
}

async function leaderOf(of: readonly Candidate[]) {
  await eventually('there is a leader', () => of.some(({ isLeading }) => isLeading));
  const leaders = of.filter(({ isLeading }) => isLeading);
  expect(leaders).toHaveLength(1);
  return { leader: leaders[0], others: of.filter((each) => each !== leaders[0]) };
}

beforeEach(async () => {
  server = await startRedis({ local: true });
});

afterEach(async () => {
  for (const candidate of candidates) candidate.signal('SIGKILL');
  await Promise.all(candidates.map(({ exited }) => exited));
  await server.stop();
});

describe('three processes with a method that runs while they lead', () => {
  it('one succeeds a leader that is killed, within a lease', async () => {
    const { leader, others } = await elect();
    const from = performance.now();
    leader.signal('SIGKILL');
    await leader.exited;
    const next = await leaderOf(others);
    // The lease, and what a busy machine takes.
    expect(performance.now() - from).toBeLessThan(TTL_MS + 5_000);
    expect(next.leader.tokens[0]).toBeGreaterThan(leader.tokens[0]);
    await new Promise((resolve) => setTimeout(resolve, TTL_MS));
    expect(others.map(({ terms }) => terms)).toEqual(next.leader === others[0] ? [1, 0] : [0, 1]);
  });

  it('one succeeds a leader at its SIGTERM at once', async () => {
    // If it took a lease, nobody would lead in time.
    const { leader, others } = await elect(60_000);
    leader.signal('SIGTERM');
    const next = await leaderOf(others);
    await leader.exited;
    expect(leader.events.at(-1)).toEqual({ event: 'deposed', reason: 'LockClosedError' });
    expect(next.leader.tokens[0]).toBeGreaterThan(leader.tokens[0]);
    const last = next.others[0];
    next.leader.signal('SIGTERM');
    expect((await leaderOf([last])).leader).toBe(last);
  });

  it('one succeeds a leader that is stopped, which finds that out when it goes on', async () => {
    const { leader, others } = await elect();
    leader.signal('SIGSTOP');
    const next = await leaderOf(others);
    leader.signal('SIGCONT');
    await eventually('it was deposed', () => !leader.isLeading);
    expect(leader.events.at(-1)).toEqual({ event: 'deposed', reason: 'LockLostError' });
    next.leader.signal('SIGTERM');
    await eventually('there is a third term', () => candidates.some((each) => each !== next.leader && each.isLeading));
  });

  it('none leads while Redis is down for longer than a lease, and one leads when it is back', async () => {
    const { leader } = await elect();
    await server.kill();
    await eventually('it was deposed', () => !leader.isLeading, TTL_MS + 5_000);
    expect(candidates.filter(({ isLeading }) => isLeading)).toEqual([]);
    await server.restart();
    await leaderOf(candidates);
    await new Promise((resolve) => setTimeout(resolve, TTL_MS));
    expect(candidates.filter(({ isLeading }) => isLeading)).toHaveLength(1);
  });

  it('they start without Redis, and one leads when it is there', async () => {
    await server.kill();
    const prefix = uniquePrefix();
    candidates = [1, 2].map(() => new Candidate(server.url, prefix));
    for (const candidate of candidates) await candidate.started();
    expect(candidates.map(({ terms }) => terms)).toEqual([0, 0]);
    await server.restart();
    await leaderOf(candidates);
  });
});
