import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { openAdmin } from '../../../lib/cli/open-admin.js';
import { run } from '../../../lib/cli/run.js';
import { FakeTerminal } from '../../support/fake-terminal.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { RedisLocks } from '../../support/redis-locks.js';

let set: ReplicaSet;
let running: RedisLocks;

beforeAll(async () => {
  set = await ReplicaSet.start({ replicas: 1, sentinels: 1 });
  running = new RedisLocks();
});
afterAll(async () => {
  await running?.close();
  await set?.close();
});

/** Runs a command on the master of that name. */
async function cli(line: string, name = set.address.name) {
  const terminal = new FakeTerminal();
  const hosts = set.address.sentinels.map(({ host, port }) => `${host}:${port}`).join(',');
  const env = { REDIS_URL: `redis-sentinel://${hosts}/${name}` };
  const args = [...line.split(' '), '--prefix', running.prefix, '--timeout', '3000'];
  const code = await run(args, { version: '1.2.3', env, terminal, openAdmin });
  return { code, out: terminal.stdout.text, err: terminal.stderr.text };
}

describe('a master behind Sentinel', () => {
  it('is listed and released', async () => {
    const locks = running.start({ redis: set.address, identity: 'api-1', checks: { server: 'off' } });
    await locks.acquire('goods:300');
    const { code, out } = await cli('list');
    expect(code).toBe(0);
    expect(out).toMatch(/^goods:300 +exclusive +api-1 /m);
    expect(await cli('release goods:300 --yes')).toMatchObject({ code: 0 });
    expect(await cli('inspect goods:300')).toMatchObject({ code: 4 });
  });

  it('is missed by another name', async () => {
    const { code, err } = await cli('list', 'elsewhere');
    expect(code).toBe(3);
    expect(err).toContain('The Sentinel does not know a master with that name.');
  });
});
