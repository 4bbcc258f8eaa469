import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { Contention } from '../../support/contention.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Contention());

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Returns how many bytes of the heap are in use. */
function livingHeap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Makes locks, as another instance would hold them. */
const FILL = `for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  redis.call('SET', ARGV[1] .. i, 'api-1-abc:' .. i .. '/secret ' .. i, 'PX', 3600000)
end`;

const STEP = 10_000;

async function eachStep(script: string, from: number, to: number): Promise<void> {
  const start = here.keyOf('goods:');
  for (let i = from; i <= to; i += STEP) await here.admin.eval(script, 0, start, i, Math.min(to, i + STEP - 1));
}

describe('a list of very many locks', () => {
  it('is a stream in bounded memory, and has each lock once', async () => {
    const many = 20_000;
    await eachStep(FILL, 1, many);
    const locks = here.instance();
    const seen = new Uint8Array(many + 1);
    let count = 0;
    let most = 0;
    const before = livingHeap();
    for await (const { resource } of locks.list({ count: 1_000 })) {
      seen[Number(resource.slice('goods:'.length))] += 1;
      count += 1;
      if (count % 5_000 === 0) most = Math.max(most, livingHeap() - before);
    }
    expect(count).toBe(many);
    expect(seen.subarray(1).every((times) => times === 1)).toBe(true);
    // A page takes 1.5 MiB. All keys and their states at once would take 17 MiB.
    expect(most).toBeLessThan(8.5 * 2 ** 20);
  });
});
