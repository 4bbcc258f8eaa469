import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockOrderError } from 'nestjs-redis-lock';
import { createTestLocks, resetLockOrder, withLocks } from 'nestjs-redis-lock/testing';
import { sectionOf } from '../support/pages.js';
import { Refunds, Shop, takesLocksInOneOrder } from './lock-order.js';

describe('the section on the order of locks', () => {
  const section = sectionOf('docs/modes.md', 'The order of locks');
  let warnings: string[];

  beforeEach(() => {
    resetLockOrder();
    warnings = [];
    Logger.overrideLogger({ warn: (line: string) => void warnings.push(line), log: () => 0, error: () => 0 });
  });
  afterEach(() => Logger.overrideLogger(undefined as never));

  it('shows the warning', async () => {
    const locks = createTestLocks({ lockOrder: 'warn' });
    await withLocks(new Shop(locks), locks).buy(300);
    await withLocks(new Refunds(locks), locks).run(1);
    expect(warnings).toHaveLength(1);
    // The page shows the line in several.
    expect(section.replaceAll(/\s+/g, ' ')).toContain(`\`\`\`text ${warnings[0]} \`\`\``);
  });

  it('has a test that fails with both places', async () => {
    const error: unknown = await takesLocksInOneOrder().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockOrderError);
    expect((error as Error).message).toContain('goods → order in Shop.buy, order → goods in Refunds.run');
  });
});
