import { expect, it } from '@jest/globals';
import { SystemClock } from '../../../lib/core/time/clock.js';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { costOf } from '../../support/command-counts.js';
import { RedisCluster } from '../../support/redis/cluster.js';

/** Stands still from some moment on, so that no batch gets old. */
class Stoppable extends SystemClock {
  private stoppedAt: number | undefined;

  override now(): number {
    return this.stoppedAt ?? super.now();
  }

  stop(): void {
    this.stoppedAt = super.now();
  }
}

const RESOURCES = Array.from({ length: 100 }, (_, i) => `goods:${i}`);

it('the locks of one tick cost few commands in a cluster if they are in one slot (scenario 2c)', async () => {
  const cluster = await RedisCluster.start({ replicas: false });
  const options = { redis: { nodes: [...cluster.nodes] }, ttlMs: 3_600_000, shutdownGraceMs: 0 };
  const clock = new Stoppable();
  const internals = { clock, requestTimeoutMs: 3_600_000 };
  const runtime = LockRuntime.start({ ...options, checks: { server: 'off' } }, 'counted', internals);
  try {
    runtime.connect();
    const wave = async (): Promise<void> => {
      const held = await Promise.all(RESOURCES.map((resource) => runtime.service.acquire(resource)));
      await Promise.all(held.map((lock) => lock.release()));
    };
    // Its client connects to the node, and the scripts are loaded.
    await wave();
    clock.stop();
    const admins = cluster.masters.map((master) => master.admin);
    const cost = await costOf(async () => {
      for (let i = 0; i < 5; i += 1) await wave();
    }, admins);
    expect(cost).toEqual({ commands: 20, calls: 580 });
  } finally {
    await runtime.close();
    await cluster.close();
  }
});
