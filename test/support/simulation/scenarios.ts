import type { Scenario } from './simulate.js';

/** Returns the scenarios for that many instances. */
export function scenariosFor(instances: number): readonly Scenario[] {
  const common = { instances, rounds: 1, workMs: 1, heldMs: 60_000, keys: 1, masters: 1, mode: 'exclusive' } as const;
  const keys = instances / 10;
  return [
    { ...common, name: 'one key', instances: instances / 10 },
    { ...common, name: 'one key' },
    { ...common, name: 'many keys', keys, masters: 3, heldMs: 0, rounds: 10, workMs: 5 },
    { ...common, name: 'readers', mode: 'shared' },
  ];
}
