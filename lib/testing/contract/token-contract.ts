import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { type FixtureTest } from './store-fixture.js';

/** The tests of fencing tokens, and of exclusion where many contend. */
export function registerTokenContract(test: FixtureTest, describe: (name: string, body: () => void) => unknown): void {
  describe('fencing', () => {
    test('tokens rise with every grant, also over releases and expiries', async (bench) => {
      if (!bench.under.store.capabilities.fencing) return;
      const tokens = [await bench.tokenFor('ann')];
      await bench.release('ann');
      tokens.push(await bench.tokenFor('bob', bench.shortMs));
      await bench.outlast(bench.shortMs);
      tokens.push(await bench.tokenFor('cid'));
      await bench.release('cid');
      tokens.push(await bench.tokenFor('dot'));
      deepStrictEqual(
        tokens,
        [...new Set(tokens)].toSorted((a, b) => a - b),
      );
      ok(tokens.every(Number.isSafeInteger));
    });
  });

  describe('under contention', () => {
    test('a counter that is read and written apart loses nothing, and its tokens rise', async (bench) => {
      const { fencing } = bench.under.store.capabilities;
      const seen: number[] = [];
      let count = 0;
      const work = async (name: string): Promise<void> => {
        for (let round = 0; round < 25;) {
          const owner = `${name}${round}`;
          const reply = await bench.ask(owner);
          if (reply.status !== 'granted') continue;
          const read = count;
          await bench.under.store.inspect(bench.key);
          count = read + 1;
          if (reply.token !== undefined) seen.push(reply.token);
          await bench.release(owner);
          round += 1;
        }
      };
      await Promise.all(['ann', 'bob', 'cid', 'dot'].map(work));
      strictEqual(count, 100);
      if (fencing)
        deepStrictEqual(
          seen,
          [...new Set(seen)].toSorted((a, b) => a - b),
        );
    });
  });
}
