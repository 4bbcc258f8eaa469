import { describeCall, type CallDetails, type CallTarget, type LockCall } from '../core/call.js';
import { LockEvents, outcomeOf } from '../core/diagnostics.js';
import type { LockOutcome } from '../core/tracing.js';

/**
 * What has happened at a test bench.
 *
 * @publicApi
 */
export interface BenchEvent {
  /**
   * `requested` to `leaked` are the events of `lockChannels`. `occupied` and `freed`: another process has taken and
   * released the lock. `unavailable` and `available`: the connection of the store has ended and is back.
   */
  readonly type:
    | 'requested'
    | 'granted'
    | 'refused'
    | 'extended'
    | 'lost'
    | 'released'
    | 'overdue'
    | 'leaked'
    | 'occupied'
    | 'freed'
    | 'unavailable'
    | 'available';
  /** When, in milliseconds of the bench's clock. */
  readonly at: number;
  /** The resource. Undefined if it concerns all. */
  readonly resource: string | undefined;
  /** The call with its method and its label. Undefined for what the bench has done. */
  readonly call: LockCall | undefined;
  /** How a refused call has ended: `timeout`, `busy`, `unavailable`. Undefined for other events. */
  readonly outcome: LockOutcome | undefined;
  /** What a refused call throws, or the `LockLostError` of a lost lock. Undefined for other events. */
  readonly error: unknown;
}

type Args<Name extends 'requested' | 'granted' | 'refused' | 'extended' | 'lost' | 'released' | 'overdue' | 'leaked'> =
  Parameters<LockEvents[Name]>;

type RecordEvent = (event: Pick<BenchEvent, 'type'> & Partial<BenchEvent>) => void;

/** Records the events of one module instance before it publishes them. */
export class RecordedEvents extends LockEvents {
  constructor(
    instance: string,
    private readonly record: RecordEvent,
  ) {
    super(instance);
  }

  override requested(...args: Args<'requested'>): void {
    this.add('requested', ...args);
    super.requested(...args);
  }

  override granted(...args: Args<'granted'>): void {
    this.add('granted', args[0].shared, args[0].shared.options);
    super.granted(...args);
  }

  override refused(...args: Args<'refused'>): void {
    const [target, options, , error, known] = args;
    this.add('refused', target, options, { error, outcome: known ?? outcomeOf(error, options) });
    super.refused(...args);
  }

  override extended(...args: Args<'extended'>): void {
    this.add('extended', args[0], args[0].options);
    super.extended(...args);
  }

  override lost(...args: Args<'lost'>): void {
    this.add('lost', args[0], args[0].options, { error: args[0].loss });
    super.lost(...args);
  }

  override released(...args: Args<'released'>): void {
    this.add('released', args[0], args[0].options);
    super.released(...args);
  }

  override overdue(...args: Args<'overdue'>): void {
    this.add('overdue', args[0], args[0].options);
    super.overdue(...args);
  }

  override leaked(...args: Args<'leaked'>): void {
    this.add('leaked', args[0], args[0].options);
    super.leaked(...args);
  }

  private add(
    type: BenchEvent['type'],
    target: CallTarget,
    details: CallDetails,
    ended: Pick<Partial<BenchEvent>, 'error' | 'outcome'> = {},
  ): void {
    this.record({ type, resource: target.resource, call: describeCall(target, details), ...ended });
  }
}
