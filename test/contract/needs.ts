import type { LockModeKind } from '../../lib/contract/lock-mode.js';
import type { LockStore, StoreCapabilities } from '../../lib/contract/store.js';

/** What a store declares: its capabilities, and the optional methods that it has. */
export type StoreDeclaration = Pick<LockStore, 'capabilities' | 'list' | 'forceRelease' | 'transfer'>;

/** What decides which tests are registered. */
export interface ContractSubject {
  readonly capabilities: StoreCapabilities;
  readonly lists: boolean;
  readonly forces: boolean;
  readonly transfers: boolean;
  readonly hasOtherClient: boolean;
  readonly canTurnBack: boolean;
}

/** Returns whether a test can run on a store. */
export type Need = (subject: ContractSubject) => boolean;

const mode =
  (kind: LockModeKind): Need =>
  ({ capabilities }) =>
    capabilities.modes.includes(kind);

export const shared = mode('shared');
export const permits = mode('permits');
export const queue: Need = ({ capabilities }) => capabilities.queue;
export const noQueue: Need = ({ capabilities }) => !capabilities.queue;
export const fencing: Need = ({ capabilities }) => capabilities.fencing;
export const repeats: Need = ({ capabilities }) => capabilities.idempotentAcquire;
export const once: Need = ({ capabilities }) => capabilities.once === true;
/** A store that keeps the names of the holder's call. */
export const naming: Need = ({ capabilities }) => ['token()', 'memory()'].includes(capabilities.name);
export const list: Need = ({ lists }) => lists;
export const force: Need = ({ forces }) => forces;
export const transfer: Need = ({ transfers }) => transfers;
export const otherClient: Need = ({ hasOtherClient }) => hasOtherClient;
export const turningBack: Need = ({ canTurnBack }) => canTurnBack;

/** Returns what the store declares, without the methods themselves, so that two declarations can be compared. */
export function declarationOf({ capabilities, list: lists, forceRelease, transfer: gives }: StoreDeclaration) {
  const [forces, transfers] = [forceRelease !== undefined, gives !== undefined];
  return { capabilities, lists: lists !== undefined, forces, transfers };
}
