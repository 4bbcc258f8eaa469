import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LostLockFailure } from 'nestjs-redis-lock/testing';
import { sectionOf } from '../support/pages.js';
import { neverOversells } from './lost-lock/shop-test.js';
import { SafeShop, Shop } from './lost-lock/shop.js';

/** Returns the message of the failure, as the page shows it. */
async function failureOf(check: Promise<unknown>): Promise<string> {
  const error: unknown = await check.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LostLockFailure);
  return (error as Error).message.replaceAll('test/docs/lost-lock/', 'src/');
}

describe('the section on lost locks', () => {
  const section = sectionOf('docs/testing.md', 'When the lock is lost');

  beforeEach(() => Logger.overrideLogger(false));
  afterEach(() => Logger.overrideLogger(undefined as never));

  it('shows how a method without a check fails, and where', async () => {
    expect(section).toContain(await failureOf(neverOversells(Shop)));
  });

  it('shows a method that passes', async () => {
    const report = await neverOversells(SafeShop);
    expect(report.awaits).toEqual([expect.stringMatching(/shop\.ts:35:\d+$/)]);
  });
});
