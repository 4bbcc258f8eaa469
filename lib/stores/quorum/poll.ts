import { LockUnavailableError, messageOf } from '../../common/errors.js';
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
 * Sends a request to all nodes at once. Returns a result as soon as the replies decide it.
 *
 * @param subject what is asked, for errors.
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
      if (result !== undefined) return resolve(result);
      // The error says what each node replied, so it waits for all of them.
      if (outcomes.includes(undefined)) return;
      reject(noMajority(`${subject} got no ${majorityOf(nodes.length)} replies that agree`, nodes, outcomes));
    };
    for (const [i, node] of nodes.entries()) {
      const onFailed = (error: Error): void => record(i, error);
      void ask(node).then((reply) => record(i, reply), onFailed);
    }
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
 * Returns the error for what no majority has decided. Its cause lists the outcome of every node. It is permanent if a
 * majority is impossible because of permanent errors.
 */
export function noMajority(why: string, nodes: readonly QuorumNode[], outcomes: readonly Outcome<unknown>[]) {
  const { length } = nodes;
  const majority = majorityOf(length);
  const answered = outcomes.filter(hasReplied).length;
  const errors = nodes.map(({ name }, i) => {
    const outcome = outcomes[i];
    const said = outcome === undefined ? 'no reply yet' : 'it has answered';
    return outcome instanceof Error ? outcome : new Error(`${name}: ${said}`);
  });
  const failure = errors.find((_, i) => !hasReplied(outcomes[i]));
  const needed = answered < majority ? `, ${majority} are needed` : '';
  const first = failure === undefined ? '' : `; ${messageOf(failure)}`;
  const message = `${why}: ${answered} of ${length} nodes have answered${needed}${first}`;
  const permanent = outcomes.filter((outcome) => outcome instanceof LockUnavailableError && outcome.permanent);
  const cause = new AggregateError(errors, message);
  return new LockUnavailableError(message, { cause, permanent: permanent.length > length - majority });
}
