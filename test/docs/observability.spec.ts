import { describe, expect, it } from '@jest/globals';
import { lockChannels } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { page } from '../support/pages.js';
import { watchLocks } from './events.js';

describe('the page on observability', () => {
  it('has an example that reports grants', async () => {
    const lines: string[] = [];
    watchLocks((line) => lines.push(line));
    await createTestLocks().using('goods:300', () => undefined);
    expect(lines).toEqual([expect.stringMatching(/^goods:300 granted after \d+ ms$/)]);
  });

  it('lists every channel', () => {
    const rows = page('docs/observability.md').text.matchAll(/^\| `(nestjs-redis-lock:\w+)`/gm);
    const channels = Object.values(lockChannels).map(({ name }) => String(name));
    expect([...rows].map(([, name]) => name)).toEqual(channels);
  });
});
