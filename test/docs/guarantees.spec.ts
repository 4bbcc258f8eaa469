import { afterEach, expect, it, jest } from '@jest/globals';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { page, sectionOf } from '../support/pages.js';
import { freeStuckLock } from './force-release.js';
import { InvoiceService } from './lost.js';

const PAGE = 'docs/guarantees.md';

afterEach(() => void jest.restoreAllMocks());

/** Returns the texts of the links of the page to a file. */
function linksTo(file: string): readonly string[] {
  const links = [...page(PAGE).text.matchAll(/\[([^\]]+)\]\(\.\.\/([^)#]+)/g)];
  return links.filter(([, , path]) => path === file).map(([, text]) => text.replaceAll(/\s+/g, ' '));
}

// That the tests exist is checked with all other links.
it.each(['What is guaranteed', 'What a token promises'])('the page on guarantees has evidence: %s', (heading) => {
  const promises = sectionOf(PAGE, heading).split('\n- ').slice(1);
  expect(promises.length).toBeGreaterThan(2);
  const without = promises.filter((promise) => !/\]\(\.\.\/(?:labs|test)\//.test(promise));
  expect(without).toEqual([]);
});

it('the page on guarantees names invariants and injected faults that exist', () => {
  const { text: specification } = page('labs/spec/token.qnt');
  const { text: results } = page('labs/chaos/RESULTS.md');
  const invariants = linksTo('labs/spec/token.qnt').map((name) => name.replaceAll('`', ''));
  expect(invariants.length).toBeGreaterThan(5);
  expect(invariants.filter((name) => !specification.includes(`\n  val ${name} = `))).toEqual([]);
  const faults = linksTo('labs/chaos/RESULTS.md').filter((name) => name !== 'its results');
  expect(faults.length).toBeGreaterThan(5);
  expect(faults.filter((name) => !results.includes(`\n| ${name} `))).toEqual([]);
});

it('the page on guarantees passes the signal of its lock on, and sends the invoice', async () => {
  const fetched = jest.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('sent'));
  await withLocks(new InvoiceService()).send({ id: '1' });
  expect(fetched.mock.calls).toEqual([
    ['https://mail.example/send', { method: 'POST', signal: expect.any(AbortSignal) }],
  ]);
});

it('the page on guarantees has a method that does not run unlocked', async () => {
  await expect(new InvoiceService().send({ id: '1' })).rejects.toThrow('not made by Nest');
});

it('the page on guarantees frees the lock that was looked at', async () => {
  const locks = createTestLocks();
  expect(await freeStuckLock(locks, 'goods:300')).toBe(false);
  const lock = await locks.acquire('goods:300');
  expect(await freeStuckLock(locks, 'goods:300')).toBe(true);
  expect(() => lock.assertHeld()).toThrow('released by force');
});
