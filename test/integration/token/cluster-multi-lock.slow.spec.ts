import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { ClusterContention } from '../../support/cluster-contention.js';
import { monitor, type MonitoredCommand } from '../../support/monitor.js';
import type { ClusterMember } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';

let here: ClusterContention;

beforeAll(async () => {
  here = await ClusterContention.start({ replicas: false });
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Families that are spread over all nodes. */
const FAMILIES = Array.from({ length: 12 }, (_, i) => `family${i}`);
const GOODS = ['goods:300', 'goods:301', 'goods:302'];

const nothingLeft = (): Promise<void> =>
  eventually('nothing is left', async () => (await here.leftovers()).length === 0);

/** Returns the scripts that an instance runs meanwhile, on any node. */
async function scriptsOf(locks: LockService, work: () => Promise<unknown>): Promise<number> {
  let scripts = 0;
  const ended = new Set<string>();
  const onCommand = ({ words }: MonitoredCommand): void => {
    if (/^eval(sha)?$/i.test(words[0]) && words.some((word) => word.startsWith(`v2-${locks.engine.instanceId}`)))
      scripts += 1;
    if (words[0].toLowerCase() === 'echo') ended.add(words[1]);
  };
  const { masters } = here.cluster;
  const monitors = await Promise.all(masters.map(({ admin }) => monitor(admin.options, onCommand)));
  await work();
  await Promise.all(masters.map(({ admin }, i) => admin.echo(`end ${i}`)));
  await eventually('all commands are read', () => ended.size === masters.length);
  for (const each of monitors) each.disconnect();
  return scripts;
}

describe('a multi-lock in a cluster', () => {
  it('costs one request for each slot', async () => {
    const locks = here.instance();
    const all = FAMILIES.flatMap((family) => [`${family}:1`, `${family}:2`, `${family}:3`]);
    await locks.using(all, () => undefined);
    let held = await locks.acquire(all);
    await held.release();
    const scripts = await scriptsOf(locks, async () => {
      held = await locks.acquire(all);
    });
    expect(scripts).toBe(FAMILIES.length);
    const owners = await Promise.all(held.locks.map(({ key }) => here.cluster.ownerOf(key)));
    expect(new Set(owners).size).toBe(3);
    for (const family of FAMILIES)
      expect(held.of(`${family}:1`).fencingToken).toBe(held.of(`${family}:3`).fencingToken);
    const other = here.instance();
    const tried = await Promise.all(all.map((resource) => other.tryAcquire(resource)));
    expect(tried.every((lock) => lock === null)).toBe(true);
    expect(await held.release()).toBe(true);
    expect(await here.leftovers()).toEqual([]);
  });

  it('keeps no lock on other nodes if one node refuses its lock', async () => {
    const holder = await here.instance().acquire('family7:2');
    const other = here.instance();
    const all = FAMILIES.flatMap((family) => [`${family}:1`, `${family}:2`]);
    expect(await other.tryAcquire(all)).toBeNull();
    await eventually('they are free', async () => (await here.leftovers()).join() === holder.key);
    const waiting = other.acquire(all);
    await eventually('it waits', async () => (await here.leftovers()).includes(`${holder.key}|queue`));
    await holder.release();
    expect(await (await waiting).release()).toBe(true);
    await nothingLeft();
  });
});

describe('a multi-lock in a slot that moves', () => {
  let to: ClusterMember;
  let back: ClusterMember;

  async function ends(): Promise<void> {
    back = await here.cluster.ownerOf(here.key);
    to = await here.cluster.otherThan(here.key);
  }

  it('is not acquired while keys migrate, and never in part', async () => {
    await ends();
    const locks = here.instance();
    await locks.using(GOODS, () => undefined);
    // The fence is here, the other keys are absent: both nodes reply TRYAGAIN or ASK.
    const { finish, moveKeys } = await here.cluster.migration(here.key, to);
    let settled = false;
    const granted = locks.acquire(GOODS, { waitMs: 0 }).finally(() => (settled = true));
    await sleep(200);
    expect(settled).toBe(false);
    expect(await here.leftovers()).toEqual([]);
    await moveKeys();
    await finish();
    expect(await (await granted).release()).toBe(true);
    expect(here.warnings).toEqual([]);
    await here.cluster.migrate(here.key, back);
  });
});
