import { beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, type LockInfo, type LockService } from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';
import { describeLock, lockTable } from '../../../lib/cli/lock-view.js';
import { printableJson } from '../../../lib/cli/printable.js';
import { Contention } from '../../support/contention.js';
import { deferred } from '../../support/async.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());
let other: LockService;

beforeEach(() => {
  other = here.instance({ identity: 'api-2' });
});

async function listed(): Promise<LockInfo> {
  const found = [];
  for await (const lock of other.list()) found.push(lock);
  expect(found).toHaveLength(1);
  return found[0];
}

const inspected = async (): Promise<LockInfo> => (await other.inspect('goods:300')) as LockInfo;

describe('the names of a holder in another instance', () => {
  it('are in errors, inspect() and list(), for a method and its label', async () => {
    const end = deferred();
    const begun = deferred();
    class Reports {
      @Locked('goods:300', { label: (invoice: string) => `invoice ${invoice}` })
      async nightly(_invoice: string): Promise<void> {
        begun.resolve();
        await end.promise;
      }
    }
    const locks = here.instance({ identity: 'api-7f9c-31' });
    const running = withLocks(new Reports(), locks).nightly('12, ünpaid');
    await begun.promise;
    await expect(other.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(
      /^goods:300 is locked, held by api-7f9c-31 in Reports\.nightly \(invoice 12, ünpaid\) for /,
    );
    const names = { method: 'Reports.nightly', label: 'invoice 12, ünpaid', isOwn: false };
    expect(await inspected()).toMatchObject(names);
    expect(await listed()).toMatchObject(names);
    expect(describeLock(await listed())).toContain('api-7f9c-31 in Reports.nightly (invoice 12, ünpaid)\n');
    end.resolve();
    await running;
    expect(await here.admin.exists(here.key)).toBe(0);
  });

  it('have at most 120 characters in Redis, and end with a whole character', async () => {
    const lock = await here.instance().acquire('goods:300', { label: '🔒'.repeat(5_000) });
    const [, , , label] = ((await here.admin.get(here.key)) as string).split(' ');
    expect(label).toHaveLength(120);
    expect((await inspected()).label).toBe('🔒'.repeat(10));
    await lock.release();
  });
});

describe('a hostile label', () => {
  /** Control characters of a terminal, a forged line, a reversed text, and what the scripts themselves write. */
  const HOSTILE = ' v2-* v2-!x:1 1\r\n[Nest] forged \u001b[31m\u202e\ud800 100% %zz';

  it('changes neither the owner nor the token, and is text everywhere', async () => {
    const lock = await here.instance({ identity: 'api-1' }).acquire('goods:300', { label: HOSTILE });
    const info = await inspected();
    expect(info).toMatchObject({ identity: 'api-1', fencingToken: lock.fencingToken, mode: 'exclusive' });
    const shown = [describeLock(info), lockTable([info]), printableJson(info), info.label];
    const error = await other.acquire('goods:300', { waitMs: 0 }).catch((reason: unknown) => reason);
    for (const text of [...shown, (error as Error).message]) {
      expect(text).toContain('[Nest] forged');
      // oxlint-disable-next-line no-control-regex -- what must not be there
      expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e\ud800]|\n\[/);
    }
    await lock.extend(60_000);
    expect(await lock.release()).toBe(true);
  });

  it.each([
    ['not percent-encoded', '%zz %'],
    ['control characters', '%1b[2J %0a%0aforged'],
    ['a third name', 'a b c'],
    ['long', `${'a'.repeat(5_000)} b`],
  ])('that another client has written breaks nothing: %s', async (_what, about) => {
    await here.admin.set(here.key, `v2-api-1-pLe2iVZ7AL7MXboH:1 1767225720000000 ${about}`, 'PX', 60_000);
    const text = describeLock(await inspected());
    // oxlint-disable-next-line no-control-regex -- what must not be there
    expect(text).not.toMatch(/\u001b|\n\n|\nforged/);
    expect(text.length).toBeLessThan(1_000);
    await expect(other.acquire('goods:300', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    expect(await other.forceRelease('goods:300')).toBe(true);
  });
});
