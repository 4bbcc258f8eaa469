import { isDeepStrictEqual } from 'node:util';
import { basicContract } from './basic-contract.js';
import { forceContract } from './force-contract.js';
import { listingContract, queueListingContract, sharedListingContract } from './listing-contract.js';
import { declarationOf, type StoreDeclaration } from './needs.js';
import { queueContract } from './queue-contract.js';
import { permitsContract, permitsQueueContract, sharedContract, sharedQueueContract } from './shared-mode-contract.js';
import { type ContractPart, type OtherClient, type Run, StoreFixture, type StoreUnderTest } from './store-fixture.js';
import { contentionContract, tokenContract } from './token-contract.js';
import { transferContract } from './transfer-contract.js';
import { turnsContract } from './turns-contract.js';

/** The options of {@link registerStoreContract}. */
export interface StoreContractOptions<U extends StoreUnderTest = StoreUnderTest> {
  /**
   * A store like those of `createStore`. What it declares decides which tests are registered. None of its methods is
   * called, so it needs no server.
   */
  readonly store: StoreDeclaration;
  /**
   * Creates a store for one test. No other client uses its keys.
   *
   * @param beside the other store in a test with two instances. Both must have the same clock and the same locks.
   */
  readonly createStore: (beside?: U) => Promise<U>;
  /** Returns a client of another library that shares its keys with the store. Default: none. */
  readonly otherClient?: ((under: U) => OtherClient) | undefined;
  /**
   * Sets the wall clock of the store, or of its servers, back by `ms` milliseconds. Default: the clock cannot be set,
   * and the tests that set it are not registered.
   */
  readonly turnBack?: ((under: U, ms: number) => void) | undefined;
  /**
   * The lease in milliseconds that tests let expire. With real time, it must be longer than the machine may stall,
   * because some tests send several requests within it. Default: 1,000.
   */
  readonly shortLeaseMs?: number | undefined;
  readonly describe: (name: string, body: () => void) => unknown;
  readonly it: (name: string, body: () => Promise<void>) => unknown;
}

const CONTRACT: readonly ContractPart[] = [
  ...basicContract,
  tokenContract,
  contentionContract,
  queueContract,
  listingContract,
  queueListingContract,
  sharedListingContract,
  forceContract,
  transferContract,
  sharedContract,
  sharedQueueContract,
  permitsContract,
  permitsQueueContract,
  turnsContract,
];

const UNLIKE = 'createStore created a store that declares something other than the option `store`';

let fixtures = 0;

/** Registers the tests that a store has to pass. Tests of what the store does not declare are not registered. */
export function registerStoreContract<U extends StoreUnderTest>(options: StoreContractOptions<U>): void {
  const { store, createStore, otherClient, turnBack, shortLeaseMs = 1_000, describe, it } = options;
  const declared = declarationOf(store);
  const subject = {
    ...declared,
    hasOtherClient: otherClient !== undefined,
    canTurnBack: turnBack !== undefined,
  };
  const run = async (test: Run): Promise<void> => {
    const under = await createStore();
    fixtures += 1;
    try {
      if (!isDeepStrictEqual(declarationOf(under.store), declared)) throw new Error(UNLIKE);
      const harness = {
        shortLeaseMs,
        createNeighbour: () => createStore(under),
        otherClient: otherClient && (() => otherClient(under)),
        turnBack: turnBack && ((ms: number) => turnBack(under, ms)),
      };
      await test(new StoreFixture(under, `${fixtures}`, harness));
    } finally {
      await under.close();
    }
  };
  for (const { subject: title, needs = [], tests } of CONTRACT) {
    const possible = Object.entries(tests).flatMap(([name, test]) => {
      const { needs: more, run: body } = typeof test === 'function' ? { needs: [], run: test } : test;
      return [...needs, ...more].every((need) => need(subject)) ? [{ name, body }] : [];
    });
    // Jest refuses a block without tests.
    if (possible.length === 0) continue;
    describe(title, () => {
      for (const { name, body } of possible) it(name, () => run(body));
    });
  }
}
