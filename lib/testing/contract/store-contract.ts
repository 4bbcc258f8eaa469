import { aFunction, checkOptions, checkValue, type OptionRules } from '../../core/check-options.js';
import { basicContract } from './basic-contract.js';
import { forceContract } from './force-contract.js';
import { listingContract, queueListingContract, sharedListingContract } from './listing-contract.js';
import { multiKeyContract } from './multi-key-contract.js';
import { queueContract } from './queue-contract.js';
import { permitsContract, permitsQueueContract, sharedContract, sharedQueueContract } from './shared-mode-contract.js';
import { type ContractPart, StoreFixture, type StoreUnderTest } from './store-fixture.js';
import { contentionContract, tokenContract } from './token-contract.js';
import { turnsContract } from './turns-contract.js';

/**
 * The options of {@link registerStoreContract}.
 *
 * @publicApi
 */
export interface StoreContractOptions {
  /**
   * Creates a store for one test. No other client uses its keys. Called twice in a test of two instances: both stores
   * must have the same locks.
   */
  readonly createStore: () => Promise<StoreUnderTest>;
  /** `describe` of the test runner. */
  readonly describe: (name: string, body: () => void) => unknown;
  /** `it` or `test` of the test runner. */
  readonly it: (name: string, body: () => Promise<void>) => unknown;
}

const CONTRACT: readonly ContractPart[] = [
  ...basicContract,
  tokenContract,
  contentionContract,
  queueContract,
  multiKeyContract,
  listingContract,
  queueListingContract,
  sharedListingContract,
  forceContract,
  sharedContract,
  sharedQueueContract,
  permitsContract,
  permitsQueueContract,
  turnsContract,
];

const RULES: OptionRules<StoreContractOptions> = { createStore: aFunction, describe: aFunction, it: aFunction };

let fixtures = 0;

/**
 * Registers the tests that every `LockStore` has to pass, with any test runner. Tests of a capability that the store
 * does not declare pass without running.
 *
 * ```ts
 * describe('my store', () => registerStoreContract({ createStore, describe, it }));
 * ```
 *
 * @throws LockConfigError if an option is missing or no function.
 *
 * @publicApi
 */
export function registerStoreContract(options: StoreContractOptions): void {
  const { createStore, describe, it } = checked(options);
  const run = async ({ appliesTo }: ContractPart, test: ContractPart['tests'][string]): Promise<void> => {
    const under = await createStore();
    fixtures += 1;
    try {
      if (appliesTo?.(under.store.capabilities) ?? true)
        await test(new StoreFixture(under, `${fixtures}`, createStore));
    } finally {
      await under.close();
    }
  };
  for (const part of CONTRACT) {
    describe(part.subject, () => {
      for (const [name, test] of Object.entries(part.tests)) it(name, () => run(part, test));
    });
  }
}

function checked(given: StoreContractOptions): StoreContractOptions {
  const place = 'registerStoreContract()';
  const { createStore, describe, it } = checkOptions(place, given, RULES);
  const options = { createStore, describe, it };
  for (const [name, value] of Object.entries(options)) checkValue(place, name, value, aFunction);
  return options;
}
