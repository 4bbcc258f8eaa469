import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { fencing, reserving, turningBack } from './needs.js';
import { type ContractPart, onlyWith } from './store-fixture.js';

/** One token for the holder, and one for each of 16 callers that its instance may pass the lock on to. */
const RESERVED = 17;

/** Tests that fencing tokens rise. */
export const tokenContract: ContractPart = {
  subject: 'fencing tokens',
  needs: [fencing],
  tests: {
    'rise with every grant, after releases and after expired leases': async (fixture) => {
      const tokens = [await fixture.tokenOf('ann')];
      await fixture.release('ann');
      tokens.push(await fixture.tokenOf('bob', fixture.shortMs));
      await fixture.outlast(fixture.shortMs);
      tokens.push(await fixture.tokenOf('cid'));
      await fixture.release('cid');
      tokens.push(await fixture.tokenOf('dot'));
      deepStrictEqual(
        tokens,
        [...new Set(tokens)].toSorted((a, b) => a - b),
      );
      ok(tokens.every(Number.isSafeInteger));
    },

    'that a grant reserves are never granted to another owner': async (fixture) => {
      let next = 0;
      for (const name of ['ann', 'bob', 'cid', 'dot']) {
        const { token, tokens } = await fixture.grantOf(name);
        ok(token !== undefined && token >= next, `${name} got ${token}, want at least ${next}`);
        ok(Number.isInteger(tokens) && tokens >= 1);
        next = token + tokens;
        await fixture.release(name);
      }
    },

    'are 17 for each grant, also for grants within a microsecond': onlyWith([reserving], async (fixture) => {
      let last = -Infinity;
      for (const name of ['ann', 'bob', 'cid', 'dot']) {
        const { token, tokens } = await fixture.grantOf(name);
        strictEqual(tokens, RESERVED);
        ok(token !== undefined && token >= last + RESERVED, `${name} got ${token} after ${last}`);
        last = token;
        await fixture.release(name);
      }
    }),

    'rise even if the wall clock is set back': onlyWith([turningBack], async (fixture) => {
      const tokens: number[] = [];
      for (const name of ['ann', 'bob', 'cid']) {
        tokens.push(await fixture.tokenOf(name));
        await fixture.release(name);
        fixture.turnBack(60_000);
      }
      ok(tokens[0] < tokens[1] && tokens[1] < tokens[2], tokens.join(' '));
    }),
  },
};

/** Tests exclusion with several concurrent callers. */
export const contentionContract: ContractPart = {
  subject: 'contention',
  tests: {
    'a counter under the lock loses no increment, and tokens rise': async (fixture) => {
      const seen: number[] = [];
      let count = 0;
      const work = async (name: string): Promise<void> => {
        for (let round = 0; round < 25;) {
          const owner = `${name}${round}`;
          const reply = await fixture.acquire(owner);
          if (reply.status !== 'granted') continue;
          const read = count;
          await fixture.under.store.inspect(fixture.key);
          count = read + 1;
          if (reply.token !== undefined) seen.push(reply.token);
          await fixture.release(owner);
          round += 1;
        }
      };
      await Promise.all(['ann', 'bob', 'cid', 'dot'].map(work));
      strictEqual(count, 100);
      if (fixture.capabilities.fencing)
        deepStrictEqual(
          seen,
          [...new Set(seen)].toSorted((a, b) => a - b),
        );
    },
  },
};
