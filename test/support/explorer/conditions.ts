/** How likely each fault is, from 0 to 1, and the longest delay in milliseconds. */
export interface Faults {
  /** The server refuses a request, which does not run. */
  readonly refused: number;
  /** The connection ends before a request. */
  readonly disconnect: number;
  /** What was on its way when the connection ended still arrives, in order, late. */
  readonly arrivesLate: number;
  /** The client sends what was on its way again, over the next connection. */
  readonly resends: boolean;
  readonly messageLost: number;
  readonly messageTwice: number;
  /** Somebody sends a message for an owner that waits, holds, is over, or was never issued. */
  readonly messageForged: number;
  /** Messages cannot be received for a while after a connection has ended. */
  readonly deafMs: number;
  readonly longestMs: number;
}

export const NO_FAULTS: Faults = {
  refused: 0,
  disconnect: 0,
  arrivesLate: 0,
  resends: false,
  messageLost: 0,
  messageTwice: 0,
  messageForged: 0,
  deafMs: 0,
  longestMs: 0,
};

/** What happens to the instances and to the server, besides the faults of connections. Numbers are likelihoods. */
export interface Events {
  /** One instance dies in the middle, without a word. */
  readonly dies: number;
  /** One instance is shut down in the middle. */
  readonly shutsDown: number;
  /** A replica that is a little behind takes over, once. */
  readonly failover: number;
  /** The event loop of an instance is blocked, before each call. */
  readonly blocked: number;
}

/** What the callers do. Numbers without a unit are likelihoods. */
export interface Habits {
  readonly instances: number;
  /** Whether the store has a queue. Without one, instances poll. */
  readonly hasQueue: boolean;
  readonly keys: number;
  readonly calls: number;
  /** `strict` instances. */
  readonly strict: number;
  /** Shared locks and permits. */
  readonly modes: number;
  readonly force: number;
  /** A call for several locks. */
  readonly several: number;
  /** A lock scope. */
  readonly scope: number;
  /** A caller that does not wait. */
  readonly tries: number;
  /** A lock that is detached, and resumed by one of two instances. Only where no instance dies. */
  readonly tickets: number;
  /** Work that takes up to 600 ms. */
  readonly slow: number;
  /** The other work takes up to this long. */
  readonly workMs: number;
  readonly shortestTtlMs: number;
  readonly longestTtlMs: number;
  /** A caller that waits without a limit. */
  readonly patient: number;
  readonly minHold: number;
  /** A caller whose signal aborts within 300 ms. */
  readonly aborts: number;
  /** Work that asks for its own lock again. */
  readonly nests: number;
  /** The longest pause between two calls. */
  readonly pauseMs: number;
}

/** Everything that a seed decides, and that a test may override. */
export type Conditions = Faults & Events & Habits;

/** Nothing happens but ordinary calls. */
export const CALM: Conditions = {
  ...NO_FAULTS,
  dies: 0,
  shutsDown: 0,
  failover: 0,
  blocked: 0,
  instances: 2,
  hasQueue: true,
  keys: 1,
  calls: 60,
  strict: 0,
  modes: 0,
  force: 0,
  several: 0,
  scope: 0,
  tries: 0,
  tickets: 0,
  slow: 0,
  workMs: 20,
  shortestTtlMs: 100,
  longestTtlMs: 1_000,
  patient: 0.1,
  minHold: 0,
  aborts: 0.3,
  nests: 0.1,
  pauseMs: 30,
};

/** Returns the conditions of a seed. One seed of seven has no faults, so that what is found does not need one. */
export function conditionsOf(random: () => number): Conditions {
  const strength = random();
  const likely = (likelihood: number, value: number): number => (random() < likelihood ? value : 0);
  const faults: Faults = {
    refused: 0.03 * strength,
    disconnect: 0.02 * strength,
    arrivesLate: likely(0.3, 0.5),
    resends: random() < 0.3,
    messageLost: random() * 0.5,
    messageTwice: random() * 0.3,
    messageForged: random() * 0.05,
    deafMs: random() * 500,
    longestMs: random() * 60,
  };
  return {
    ...CALM,
    ...(random() < 0.15 ? NO_FAULTS : faults),
    dies: likely(0.2, 1),
    shutsDown: likely(0.2, 1),
    failover: likely(0.15, 1),
    blocked: likely(0.3, 0.05),
    instances: 2 + Math.floor(random() * 2),
    keys: 1 + Math.floor(random() * 3),
    strict: 0.3,
    modes: likely(0.7, 0.4),
    force: likely(0.2, 0.05),
    several: 0.1,
    scope: 0.08,
    tries: 0.08,
    slow: 0.05,
    longestTtlMs: random() < 0.2 ? 10_000 : 1_000,
    minHold: 0.1,
  };
}
