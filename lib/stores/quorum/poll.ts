import { LockUnavailableError, messageOf } from '../../core/errors.js';
import type { QuorumNode } from './quorum-node.js';

/** What one node replied, why it did not, or nothing yet. */
export type Outcome<Reply> = Reply | Error | undefined;

/** Returns more than half of the nodes: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** Returns whether a node has replied. */
export function hasReplied<Reply>(outcome: Outcome<Reply>): outcome is Reply {
  return outcome !== undefined && !(outcome instanceof Error);
}

/**
 * Asks all nodes at once. Returns a result as soon as the replies decide it, and ignores the others.
 *
 * @param decide returns the result. Undefined while it is open.
 * @throws LockUnavailableError with the outcome of every node, if they decide nothing.
 */
export function poll<Reply, Result>(
  nodes: readonly QuorumNode[],
  subject: string,
  ask: (node: QuorumNode) => Promise<Reply>,
  decide: (outcomes: readonly Outcome<Reply>[]) => Result | undefined,
): Promise<Result> {
  const outcomes: Outcome<Reply>[] = nodes.map(() => undefined);
  let result: Result | undefined;
  return new Promise((resolve, reject) => {
    const record = (i: number, outcome: Outcome<Reply>): void => {
      outcomes[i] = outcome;
      result ??= decide(outcomes);
      if (result !== undefined) resolve(result);
      // The error says what each node replied, so it waits for all of them.
      else if (!outcomes.includes(undefined)) reject(noMajority(subject, nodes, outcomes));
    };
    for (const [i, node] of nodes.entries())
      void ask(node).then(
        (reply) => record(i, reply),
        (error: Error) => record(i, error),
      );
  });
}

/** Returns what a majority says. Undefined while missing replies may change it, and if no majority agrees. */
export function verdictOf(outcomes: readonly Outcome<boolean>[]): boolean | undefined {
  const { length } = outcomes;
  const count = (said: boolean): number => outcomes.filter((outcome) => outcome === said).length;
  if (count(true) >= majorityOf(length)) return true;
  return length - count(false) < majorityOf(length) ? false : undefined;
}

/**
 * Returns the error for a request that no majority has decided. Its cause lists the outcome of every node. It is
 * permanent if a majority is impossible because of permanent errors.
 */
export function noMajority(
  subject: string,
  nodes: readonly Pick<QuorumNode, 'name'>[],
  outcomes: readonly Outcome<unknown>[],
): LockUnavailableError {
  const majority = majorityOf(nodes.length);
  const answered = outcomes.filter(hasReplied).length;
  const why =
    answered < majority
      ? `no usable reply from a majority of the nodes: ${answered} of ${nodes.length} nodes have answered, ${majority} are needed`
      : `no ${majority} replies that agree: ${answered} of ${nodes.length} nodes have answered`;
  const errors = nodes.map(({ name }, i) => errorOf(name, outcomes[i]));
  const failure = errors.find((_, i) => !hasReplied(outcomes[i]));
  const message = `${subject} got ${why}${failure === undefined ? '' : `; ${messageOf(failure)}`}`;
  const permanent = outcomes.filter((outcome) => outcome instanceof LockUnavailableError && outcome.permanent);
  return new LockUnavailableError(message, {
    cause: new AggregateError(errors, message),
    permanent: permanent.length > nodes.length - majority,
  });
}

function errorOf(name: string, outcome: Outcome<unknown>): Error {
  if (outcome instanceof Error) return outcome;
  if (outcome === undefined) return new Error(`${name}: no reply yet`);
  const status = typeof outcome === 'object' && outcome !== null && 'status' in outcome ? outcome.status : undefined;
  if (status === 'granted') return new Error(`${name}: the lock was given, and is given back`);
  return new Error(`${name}: ${status === 'held' ? 'the lock is held by others' : 'it has answered'}`);
}
