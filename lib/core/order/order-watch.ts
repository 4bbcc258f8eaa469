import { channel, type Channel } from 'node:diagnostics_channel';
import { type CallDetails, familyOf, type Target } from '../events/call.js';
import { callerInProgram, shortSite } from '../context/call-site.js';
import { shared } from '../context/copies.js';
import { LockOrderError } from '../errors.js';
import type { Lock } from '../hold/lock.js';
import type { Warn } from '../events/warnings.js';
import {
  type LockOrderCycle,
  type LockOrderEdge,
  type OrderedLock,
  OrderGraph,
  type OrderStep,
} from './order-graph.js';
import { describeCycle, toMermaid } from './order-text.js';

/** What happens if locks are taken in two orders: a warning, a `LockOrderError`, or nothing. */
export type LockOrderPolicy = 'warn' | 'error' | 'off';

/**
 * Which locks were requested while which others were held, in this process.
 *
 * @publicApi
 */
export interface LockOrder {
  readonly edges: readonly LockOrderEdge[];
  /** The cycles that edges make. Calls that take the locks of a cycle at the same time can wait for each other. */
  readonly cycles: readonly LockOrderCycle[];
  /** False if some are missing, because the process has more than 256 families of locks or 2,048 edges. */
  readonly isComplete: boolean;
  /** Returns the text of a Mermaid flowchart. The edges of cycles are red. */
  toMermaid(): string;
}

/**
 * The event of {@link lockOrderChannel}.
 *
 * @publicApi
 */
export interface LockOrderEvent {
  /** The name of the module instance whose request has closed the cycle, `default` if it has none. */
  readonly instance: string;
  /** The edges of the cycle. The last one was seen last. */
  readonly cycle: LockOrderCycle;
  /** The cycle in one line: `goods → order in Shop.buy, order → goods in Refunds.run`. */
  readonly description: string;
}

/**
 * Publishes a {@link LockOrderEvent} once for each cycle of locks that the program takes inside each other.
 *
 * @publicApi
 */
export const lockOrderChannel: Channel<unknown, unknown> = channel('nestjs-redis-lock:order');

/** How a lock is requested. */
export interface RequestDetails extends CallDetails {
  readonly lockOrder?: LockOrderPolicy | undefined;
}

// One for the process, because the locks of several module instances and copies nest in each other.
const graph = shared('order', () => new OrderGraph(placeOf));

/** Returns where one lock is requested while another one is held. */
function placeOf(holder: string | undefined, taker: string | undefined): string {
  if (holder !== undefined) return taker === undefined || taker === holder ? holder : `${holder}, by ${taker}`;
  if (taker !== undefined) return taker;
  const site = callerInProgram();
  return site === undefined ? 'a call of LockService' : shortSite(site);
}

/**
 * Returns which locks were requested while which others were held, since the start of the process. Only a lock that the
 * caller runs under counts as held, through `using`, a `@Locked` method or a lock scope. A request with `waitMs: 0` is
 * not recorded, because it cannot wait.
 *
 * @publicApi
 */
export function lockOrder(): LockOrder {
  const edges = [...graph.edges];
  const cycles = [...graph.cycles];
  const { isComplete } = graph;
  return {
    edges,
    cycles,
    isComplete,
    toMermaid: () => toMermaid(edges, cycles),
  };
}

/**
 * Forgets everything that {@link lockOrder} returns, so that a test does not depend on earlier tests.
 *
 * @publicApi
 */
export function resetLockOrder(): void {
  graph.clear();
}

/** Records the requests of one module instance, and reports cycles. */
export class OrderWatch {
  constructor(
    private readonly instance: string,
    private readonly warn: Warn,
  ) {}

  /**
   * Records that a lock is requested while others are held.
   *
   * @throws LockOrderError if that closes a cycle and the policy of the request is `error`.
   */
  nested(held: readonly Lock[], { resource }: Target, details: RequestDetails): void {
    const to = orderedLock(this.instance, resource, details);
    for (const lock of held) {
      const { options } = lock.grant;
      const from = orderedLock(lock.instance, lock.resource, options);
      this.record({ held: from, taken: to, holder: options.method, taker: details.method }, details);
    }
  }

  /**
   * Records several locks that are acquired one after the other. Steps against the order of the families' names are not
   * recorded. Hash tags or a custom `key` function can cause them, so they are not mistakes in the program.
   *
   * @throws LockOrderError if that closes a cycle and the policy of the request is `error`.
   */
  several(inOrder: readonly Target[], details: RequestDetails): void {
    const { instance } = this;
    const { method } = details;
    let sameFamily = 0;
    for (let at = 1; at < inOrder.length; at += 1) {
      const held = orderedLock(instance, inOrder[at - 1].resource, details);
      const taken = orderedLock(instance, inOrder[at].resource, details);
      if (held.family === taken.family) {
        sameFamily += 1;
        if (sameFamily > MOST_OF_A_FAMILY || held.resource >= taken.resource) continue;
      } else if (held.family > taken.family) continue;
      this.record({ held, taken, holder: method, taker: method }, details);
    }
  }

  private record(step: OrderStep, { lockOrder: policy }: RequestDetails): void {
    const found = graph.add(step);
    // Every request that repeats a step of a known cycle comes here.
    if (found === undefined || !(found.isNew || policy === 'error')) return;
    const { cycle, isNew } = found;
    const description = describeCycle(cycle);
    const message =
      `Locks are taken in two orders: ${description}. Concurrent calls wait for each other until waitMs has elapsed. ` +
      `Take them in one order everywhere, or together: using(['…', '…']).`;
    if (isNew) {
      const event: LockOrderEvent = { instance: this.instance, cycle, description };
      if (lockOrderChannel.hasSubscribers) lockOrderChannel.publish(event);
      if (policy !== 'error') this.warn(message);
    }
    if (policy === 'error') throw new LockOrderError(message, { resource: step.taken.resource });
  }
}

/** How many pairs of one family are recorded for a list. Further pairs add nothing new. */
const MOST_OF_A_FAMILY = 8;

function orderedLock(instance: string, resource: string, details: CallDetails): OrderedLock {
  return { instance, family: familyOf(resource, details), resource };
}
