import { AcquireLoop } from '../../../lib/core/acquire/acquire-loop.js';
import { Line } from '../../../lib/core/acquire/line.js';
import { MultiAcquire } from '../../../lib/core/acquire/multi-acquire.js';
import { Grant, Ownership } from '../../../lib/core/lease/grant.js';
import { Lifecycle } from '../../../lib/core/lifecycle.js';

/** A class with states, and the methods that are its events. */
interface Watched {
  readonly name: string;
  readonly prototype: object;
  readonly states: readonly string[];
  readonly events: readonly string[];
  readonly stateOf: (object: never) => string;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

const REPLIES = ['onAcquireReply', 'onFailure', 'onTimeout', 'onLateReply'];

/** Returns which of two lists have entries. */
function lineState(line: { readonly asking: readonly unknown[]; readonly owned: readonly unknown[] }): string {
  const [asks, owns] = [line.asking.length > 0, line.owned.length > 0];
  if (asks) return owns ? 'asks and owns' : 'asks';
  return owns ? 'owns' : 'empty';
}

/** The states are those of `lib/core/README.md`. What a line asks for and owns are its states. */
export const WATCHED: readonly Watched[] = [
  {
    name: 'AcquireLoop',
    prototype: AcquireLoop.prototype,
    states: ['idle', 'pausing', 'crowded', 'blocked', 'requesting', 'waiting'],
    events: [
      'start',
      'onWaiterAdded',
      'stop',
      'onHandoff',
      'retryNow',
      'onReleasedByOthers',
      'onDisconnected',
      ...REPLIES,
    ],
    stateOf: ({ state }: AcquireLoop) => state.kind,
  },
  {
    name: 'MultiAcquire',
    prototype: MultiAcquire.prototype,
    states: ['pending', 'not pending'],
    events: ['send', 'refuse', 'onDisconnected', 'refuseIfUnavailable', ...REPLIES],
    stateOf: ({ attempt }: { readonly attempt: { readonly isPending: boolean } }) =>
      attempt.isPending ? 'pending' : 'not pending',
  },
  {
    name: 'Line',
    prototype: Line.prototype,
    states: ['empty', 'asks', 'owns', 'asks and owns'],
    events: [
      'join', 'refuse', 'refuseAtOnce', 'refuseOutsiders', 'close', 'onHandoff', 'retryNow', 'onReleasedByOthers',
      'onDisconnected', 'onForceReleased', 'refuseIfUnavailable', 'onGranted', 'onReply', 'onBlocked', 'onIdle', 'passOn',
      'onOver',
    ], // prettier-ignore
    stateOf: lineState,
  },
  {
    name: 'Ownership',
    prototype: Ownership.prototype,
    states: ['new', 'held', 'resting', 'over'],
    events: ['grantTo', 'tryPass', 'end', 'endRest', 'close'],
    stateOf: (ownership: Ownership) => {
      if (ownership.isHeld) return 'held';
      if (ownership.isResting) return 'resting';
      return (ownership as unknown as { newest: unknown }).newest === undefined ? 'new' : 'over';
    },
  },
  {
    name: 'Grant',
    prototype: Grant.prototype,
    states: ['held', 'lost', 'ended'],
    events: ['join', 'part', 'renewed', 'lose', 'discard', 'end'],
    stateOf: ({ state }: Grant) => state,
  },
  {
    name: 'Lifecycle',
    prototype: Lifecycle.prototype,
    states: ['open', 'stopping', 'draining', 'closed'],
    events: ['admit', 'onEnded', 'begin', 'settle', 'drain'],
    stateOf: (lifecycle: Lifecycle) => (lifecycle as unknown as { phase: string }).phase,
  },
];

/** Counts which events the engine's classes get in which state. */
export class Coverage {
  /** By class, event and state. */
  readonly counts = new Map<string, number>();

  /** Begins to count. Returns a function that stops it. */
  start(): () => void {
    const undo = WATCHED.flatMap((watched) => watched.events.map((event) => this.watch(watched, event)));
    return () => {
      for (const restore of undo) restore();
    };
  }

  /** Returns how many times a class got an event in a state. */
  countOf(name: string, event: string, state: string): number {
    return this.counts.get(`${name}.${event} ${state}`) ?? 0;
  }

  private watch({ name, prototype, stateOf }: Watched, event: string): () => void {
    const { counts } = this;
    const of = prototype as Record<string, Method>;
    return replaced(
      of,
      event,
      (original) =>
        function (this: unknown, ...args) {
          const pair = `${name}.${event} ${stateOf(this as never)}`;
          counts.set(pair, (counts.get(pair) ?? 0) + 1);
          return original.apply(this, args);
        },
    );
  }
}

/** Replaces a method. Returns a function that restores it. */
export function replaced(of: object, name: string, make: (original: Method) => Method): () => void {
  const methods = of as Record<string, Method>;
  const original = methods[name];
  if (typeof original !== 'function') throw new Error(`there is no method ${name}`);
  methods[name] = make(original);
  return () => void (methods[name] = original);
}
