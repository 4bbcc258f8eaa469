import { scripts } from '../../../lib/stores/quorum/scripts.js';
import type { ModelNode, Twin, TwinOf } from './quorum-model.js';

/** One sharer of a lock on a node. */
interface Sharer {
  readonly owner: string;
  readonly round: string;
  readonly token: string;
  readonly ends: number;
}

/** Returns the sharers of the lock, or undefined if it is held exclusively. */
function sharersOf(node: ModelNode, key: string): Sharer[] | undefined {
  const { value } = node.get(key) ?? { value: '*;' };
  if (!value.startsWith('*;')) return undefined;
  return value
    .split(';')
    .slice(1, -1)
    .map((sharer) => {
      const [owner, round, token, ends] = sharer.split(' ');
      return { owner, round, token, ends: Number(ends) };
    });
}

function keep(node: ModelNode, key: string, sharers: readonly Sharer[]): void {
  const values = sharers.map(({ owner, round, token, ends }) => `${owner} ${round} ${token} ${ends};`);
  const last = Math.max(...sharers.map(({ ends }) => ends));
  if (sharers.length === 0) node.delete(key);
  else node.set(key, `*;${values.join('')}`, last - node.now);
}

/** Splits the sharers into one's own and the others. `ours` is an owner, with or without a round. */
function split(sharers: readonly Sharer[], ours: string): { mine: Sharer | undefined; others: Sharer[] } {
  const [owner, round] = ours.split(' ');
  const isOurs = (one: Sharer): boolean => one.owner === owner && (round === undefined || one.round === round);
  return { mine: sharers.find(isOurs), others: sharers.filter((one) => !isOurs(one)) };
}

const acquire: Twin = (node, [key, fence], [owner, round, lease, deadline, tokens, proposed]) => {
  const now = String(node.micros);
  if (node.micros > Number(deadline)) return [-1, 0, now];
  const sharers = sharersOf(node, key);
  if (sharers === undefined) return [0, node.ttl(key), now, node.get(key)?.value];
  const { mine, others } = split(sharers, owner);
  const ends = node.now + Number(lease);
  if (mine !== undefined && mine.ends > node.now) {
    if (Number(mine.round) > Number(round)) return [-1, 0, now];
    keep(node, key, [...others, { ...mine, round, ends: Math.max(mine.ends, ends) }]);
    return [2, mine.token, now];
  }
  const place = Number(proposed) % Number(tokens);
  const token = String(node.reserve(fence, Number(tokens), Number(proposed) - place, Number(tokens)) + place);
  keep(node, key, [...others, { owner, round, token, ends }]);
  return [1, token, now];
};

const writeBack: Twin = (node, [key, fence], [ours, token, last]) => {
  node.raise(fence, Number(last));
  const { mine, others } = split(sharersOf(node, key) ?? [], ours);
  if (mine === undefined) return 0;
  keep(node, key, [...others, { ...mine, token }]);
  return 1;
};

const release: Twin = (node, [key], [ours, closedForMs]) => {
  const { mine, others } = split(sharersOf(node, key) ?? [], ours);
  if (mine === undefined) return 0;
  const ended = mine.ends > node.now;
  if (ended && closedForMs !== '0') others.push({ ...mine, ends: node.now + Number(closedForMs) });
  keep(
    node,
    key,
    others.filter(({ ends }) => ends > node.now),
  );
  return Number(ended);
};

const restore: Twin = (node, [key, fence], [value, last, lease, deadline]) => {
  if (node.micros > Number(deadline)) return 0;
  node.raise(fence, Number(last));
  const sharers = sharersOf(node, key);
  if (sharers === undefined) return 0;
  const [owner, round, token] = value.split(' ');
  const { mine, others } = split(sharers, owner);
  if (mine !== undefined && mine.ends > node.now) return 0;
  keep(node, key, [...others, { owner, round, token, ends: node.now + Number(lease) }]);
  return 1;
};

const extend: Twin = (node, [key, fence], [owner, lease]) => {
  const sharers = sharersOf(node, key);
  if (sharers === undefined) return 0;
  const { mine, others } = split(sharers, owner);
  if (mine === undefined || mine.ends <= node.now) return -1;
  keep(node, key, [...others, { ...mine, ends: Math.max(mine.ends, node.now + Number(lease)) }]);
  return [`${owner} ${mine.round} ${mine.token}`, String(node.fence(fence))];
};

/** What the scripts of shared locks do, step by step. */
export const SHARERS_TWINS: readonly TwinOf[] = [
  [scripts.acquireShared, acquire],
  [scripts.writeBackShared, writeBack],
  [scripts.releaseShared, release],
  [scripts.restoreShared, restore],
  [scripts.extendShared, extend],
];
