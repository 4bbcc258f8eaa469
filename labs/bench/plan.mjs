// The scenarios of a run and the seconds that each took on two cores, for the estimate.

/** @type {readonly { id: string, file: string, seconds: number }[]} */
export const SCENARIOS = [
  { id: '1', file: '1-uncontended.mjs', seconds: 50 },
  { id: '1b', file: '1b-cold.mjs', seconds: 43 },
  { id: '2', file: '2-distinct-keys.mjs', seconds: 58 },
  { id: '2b', file: '2b-more-keys.mjs', seconds: 60 },
  { id: '3', file: '3-one-process.mjs', seconds: 92 },
  { id: '4', file: '4-processes.mjs', seconds: 105 },
  { id: '5', file: '5-idle-waiters.mjs', seconds: 108 },
  { id: '5b', file: '5b-instances.mjs', seconds: 60 },
  { id: '6', file: '6-release-to-grant.mjs', seconds: 75 },
  { id: '7', file: '7-renewal.mjs', seconds: 35 },
];

/** Scenarios that are results of another one's file. */
const PART_OF = { '2c': '2b', '4b': '4' };

/** Returns the named scenarios, all by default. */
export function chosen(only) {
  if (only === undefined) return SCENARIOS;
  const ids = only.split(',').map((id) => PART_OF[id] ?? id);
  const known = SCENARIOS.map(({ id }) => id);
  const unknown = ids.filter((id) => !known.includes(id));
  if (unknown.length > 0) throw new Error(`There is no scenario ${unknown.join(', ')}; there are ${known.join(', ')}.`);
  return SCENARIOS.filter(({ id }) => ids.includes(id));
}
