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
  { id: '8', file: '8-decorator.mjs', seconds: 14 },
  { id: '9', file: '9-million-keys.mjs', seconds: 30 },
  { id: '10', file: '10-readers-writers.mjs', seconds: 78 },
  { id: '11', file: '11-permits.mjs', seconds: 33 },
  { id: '12', file: '12-many-readers.mjs', seconds: 22 },
  { id: '12b', file: '12b-reader-instances.mjs', seconds: 15 },
  { id: '14', file: '14-subscribers.mjs', seconds: 25 },
  { id: '15', file: '15-node-redis.mjs', seconds: 36 },
];

/** Scenarios that are results of another one's file. */
const PART_OF = { '2c': '2b', '4b': '4', '10b': '10', '15b': '15' };

/** The scenarios that every version of Node and of the server runs. */
export const ON_EACH_VERSION = ['1', '2', '3', '4'].map((id) => SCENARIOS.find((scenario) => scenario.id === id));
/** The seconds of these scenarios with few entries and rounds. */
export const SECONDS_OF_VERSION = 20;
export const NODES = ['20', '22', '24'];
/** Names of labs/servers. The first one is the server of the other scenarios, if its version is the same. */
export const SERVERS = ['Redis 7.0', 'Valkey 8.1'];
/** The id of the runs on several versions. */
export const VERSIONS = 'versions';

/** Returns the named scenarios, and whether the versions are wanted, too. */
export function chosen(only) {
  if (only === undefined) return { scenarios: SCENARIOS, versions: true };
  const ids = only.split(',').map((id) => PART_OF[id] ?? id);
  const known = [...SCENARIOS.map(({ id }) => id), VERSIONS];
  const unknown = ids.filter((id) => !known.includes(id));
  if (unknown.length > 0) throw new Error(`There is no scenario ${unknown.join(', ')}; there are ${known.join(', ')}.`);
  return { scenarios: SCENARIOS.filter(({ id }) => ids.includes(id)), versions: ids.includes(VERSIONS) };
}
