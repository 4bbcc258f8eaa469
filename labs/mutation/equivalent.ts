import { readFileSync } from 'node:fs';
import type { Mutant } from './mutants.js';

/** A mutant that behaves as the original does, and the reason. */
interface Equivalent {
  readonly file: string;
  readonly original: string;
  readonly replacement: string;
  /** A part of its line, if the file has several such mutants. */
  readonly within?: string;
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
    file: 'lib/core/acquire/acquirer.ts',
    original: 'scopeAround() === undefined',
    replacement: 'false',
    reason: 'outside of lock scopes, the keys that the caller holds are nested before and are not missing',
  },
  {
    file: 'lib/core/acquire/lines.ts',
    original: '0',
    replacement: '1',
    within: 'call = 0 }) => {',
    reason: 'each target that the lock service makes has the number of its call',
  },
  {
    file: 'lib/core/events/call.ts',
    original: '0',
    replacement: '1',
    within: 'call = 0 }: Target',
    reason: 'each target that the lock service makes has the number of its call',
  },
  {
    file: 'lib/core/keys/resource-key.ts',
    original: "typeof resource === 'string' && PLAIN_RESOURCE.test(resource)",
    replacement: 'false',
    reason: 'the checks after it accept each resource that the pattern accepts, but take longer',
  },
  {
    file: 'lib/core/lease/grant.ts',
    original: 'false',
    replacement: 'true',
    within: 'this.isResting = false;',
    reason: 'only its line reads it, of ownerships in a list that this one has left or leaves next',
  },
  {
    file: 'lib/core/lease/loop-delay.ts',
    original: 'this.dueAt = Infinity;',
    replacement: '',
    reason: 'no lock is held without a timer, and the time without one ends before the deadline of any later lock',
  },
  {
    file: 'lib/core/lease/watchdog.ts',
    original: "reply ?? 'unknown'",
    replacement: 'reply',
    reason: 'extend() throws the same error for both',
  },
  {
    file: 'lib/core/time/clock.ts',
    original: '31',
    replacement: '(31 - 1)',
    reason: 'a longer delay then takes twice as many timers, and ends at the same time',
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
export function isEquivalent(mutant: Mutant): string | undefined {
  return EQUIVALENT.find((one) => fits(one, mutant))?.reason;
}

function fits({ within, ...one }: Equivalent, { file, line, original, replacement }: Mutant): boolean {
  if (one.file !== file || one.original !== original || one.replacement !== replacement) return false;
  return within === undefined || readFileSync(file, 'utf8').split('\n')[line - 1].includes(within);
}
