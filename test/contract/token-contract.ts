import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { fencing, turningBack } from './needs.js';
import { type ContractPart, onlyWith, RESERVED } from './store-fixture.js';

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
      // Redis counts those of Redisson one by one.
      const reserved = fixture.capabilities.name === 'redisson()' ? 1 : RESERVED;
      // In memory, these grants come within a microsecond.
      let next = 0;
      for (const name of ['ann', 'bob', 'cid', 'dot']) {
        const { token, tokens } = await fixture.grantOf(name);
        strictEqual(tokens, reserved);
        ok(token !== undefined && token >= next, `${name} got ${token}, want at least ${next}`);
        next = token + tokens;
        await fixture.release(name);
      }
    },

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
          await fixture.inspect();
          count = read + 1;
          if (reply.token !== undefined) seen.push(reply.token);
          await fixture.release(owner);
          round += 1;
        }
      };
      await Promise.all(['ann', 'bob', 'cid', 'dot'].map(work));
      strictEqual(count, 100);
      ok(!fixture.capabilities.fencing || seen.every((token, i) => i === 0 || token > seen[i - 1]), seen.join(' '));
    },
  },
};
