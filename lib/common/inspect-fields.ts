import { inspect, type InspectOptions } from 'node:util';

/** The longest list that is shown in full. */
const LONGEST_LIST = 10;

/** Returns fields as `console.log` shows them, on one line. Leaves out those that are undefined. */
export function inspectFields(fields: object, options: InspectOptions): string {
  const known = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  return inspect(known, { ...options, depth: 1, breakLength: Infinity, compact: true, maxArrayLength: LONGEST_LIST });
}
