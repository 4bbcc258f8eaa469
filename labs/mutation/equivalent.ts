import type { Mutant } from './mutants.js';

/** A mutant that behaves as the original does, and the reason. */
interface Equivalent {
  readonly file: string;
  readonly original: string;
  readonly replacement: string;
  readonly reason: string;
}

const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'lib/core/lists.ts',
    original: 'list.length === 0 || (list.length === 1 && list[0] === item)',
    replacement: 'list.length === 0',
    reason: 'filter() then makes the empty list',
  },
  {
    file: 'lib/stores/token/scripts/includes/acquire-or-wait.lua',
    original: 'ticket % 1 > 0',
    replacement: 'true',
    reason: 'ZADD then writes the score that the entry has',
  },
  {
    file: 'lib/stores/token/token-topology.ts',
    original: '!slotted && this.learnsSlots(error)',
    replacement: 'this.learnsSlots(error)',
    reason: 'a refused request is then sent twice, and refused twice',
  },
];

/** Returns why the mutant behaves as the original does. Undefined if it does not. */
export function isEquivalent({ file, original, replacement }: Mutant): string | undefined {
  return EQUIVALENT.find((one) => one.file === file && one.original === original && one.replacement === replacement)
    ?.reason;
}
