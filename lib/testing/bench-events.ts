import type { LockCall } from '../events/call.js';
import { type LockEvent, lockChannels, type LostEvent, type RefusedEvent } from '../events/diagnostics.js';
import type { LockOutcome } from '../events/tracing.js';

type ChannelName = keyof typeof lockChannels;

/**
 * What happened on a test bench.
 *
 * @publicApi
 */
export interface BenchEvent {
  /**
   * The name of one of the `lockChannels`, such as `requested`, `granted` or `refused`. `occupied` and `freed`: another
   * process took and released the lock. `unavailable` and `available`: the connection of the store ended or came back.
   */
  readonly type: ChannelName | 'occupied' | 'freed' | 'unavailable' | 'available';
  /** When, in milliseconds of the bench's clock. */
  readonly at: number;
  /** The resource. Undefined if the event concerns all resources. */
  readonly resource: string | undefined;
  /** The call with its method and its label. Undefined for what the bench itself did. */
  readonly call: LockCall | undefined;
  /** How a refused call ended: `timeout`, `busy`, `unavailable`. Undefined for other events. */
  readonly outcome: LockOutcome | undefined;
  /** What a refused call throws, or the `LockLostError` of a lost lock. Undefined for other events. */
  readonly error: unknown;
}

/** Returns channels that record each event before the {@link lockChannels} get it. */
export function recordedChannels(record: (event: Omit<BenchEvent, 'at'>) => void): typeof lockChannels {
  const recorded = (type: ChannelName) => ({
    hasSubscribers: true,
    publish: (published: unknown) => {
      const event = published as LockEvent & Partial<Pick<RefusedEvent & LostEvent, 'outcome' | 'reason'>>;
      record({ type, resource: event.resource, call: event, outcome: event.outcome, error: event.reason });
      lockChannels[type].publish(published);
    },
  });
  const names = Object.keys(lockChannels) as ChannelName[];
  // An engine only publishes to them.
  return Object.fromEntries(names.map((name) => [name, recorded(name)])) as unknown as typeof lockChannels;
}
