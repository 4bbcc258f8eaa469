import type { Mutant } from './mutants.js';

/** A mutant that behaves as the original does, and the reason. */
interface Equivalent {
  readonly file: string;
  readonly original: string;
  readonly replacement: string;
  readonly reason: string;
}

const EQUIVALENT: readonly Equivalent[] = [];

/** Returns why the mutant behaves as the original does. Undefined if it does not. */
export function isEquivalent({ file, original, replacement }: Mutant): string | undefined {
  return EQUIVALENT.find((one) => one.file === file && one.original === original && one.replacement === replacement)
    ?.reason;
}
