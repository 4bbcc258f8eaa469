import type { Fault, Scenario } from './exhaust.js';

const TWO = [{ instance: 0 }, { instance: 1 }];
const READER_AND_WRITER = [{ instance: 0, mode: 'shared' }, { instance: 1 }] as const;
/** The second caller of the first instance gets the lock by a pass, or by a handoff. */
const THREE = [{ instance: 0 }, { instance: 0 }, { instance: 1 }];

const withFault = (title: string, calls: Scenario['calls'], fault: Fault): Scenario => {
  return { title: `${title}, ${WHAT[fault]}`, calls, faults: [fault] };
};

const WHAT: Readonly<Record<Fault, string>> = {
  lost: 'and a connection ends with what was on its way',
  late: 'and a connection ends, whose bytes arrive later',
  resent: 'and a connection ends, whose requests are sent again',
  silent: 'and a message is lost',
  dies: 'and an instance dies',
  expires: 'and nothing arrives for a whole lease',
};

/** Scenarios with few schedules. */
export const QUICK: readonly Scenario[] = [
  { title: 'two instances, one call each', calls: TWO },
  { title: 'a reader and a writer', calls: READER_AND_WRITER },
  { title: 'two calls in one instance, and one in another', calls: THREE },
  { title: 'a caller that leaves, and one in another instance', calls: [{ instance: 0, leaves: true }, TWO[1]] },
  withFault('two instances', TWO, 'silent'),
  withFault('two instances', TWO, 'dies'),
];

/** Scenarios that take longer. */
export const LONG: readonly Scenario[] = [
  withFault('two instances', TWO, 'expires'),
  withFault('two instances', TWO, 'lost'),
  withFault('two instances', TWO, 'late'),
  withFault('two instances', TWO, 'resent'),
  withFault('a reader and a writer', READER_AND_WRITER, 'dies'),
  withFault('a reader and a writer', READER_AND_WRITER, 'expires'),
  withFault('a reader and a writer', READER_AND_WRITER, 'lost'),
  withFault('two calls in one instance, and one in another', THREE, 'silent'),
  withFault('two calls in one instance, and one in another', THREE, 'dies'),
];
