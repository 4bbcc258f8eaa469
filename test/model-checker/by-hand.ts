import { instanceOf, type AcquireRequest, type ReleaseRequest } from '../../lib/core/store/lock-store.js';
import type { QueueEntry, Holder } from '../../lib/stores/memory/lock-row.js';
import { type TableHandoff, LockTable, type TableWorld } from '../../lib/stores/memory/lock-table.js';
import { answerOf, type Exchange, rowOf } from './exchange.js';
import type { Request } from './network.js';
import { KEY } from './scenario.js';

const TERMS = { keys: [KEY], handoffMs: 3_000, tokens: 3 } as const;
/** Nobody listens for `d`. */
const CLAIMS: readonly { readonly holders: readonly string[]; readonly queues: readonly string[] }[] = [
  {
    holders: ['', 'a:1', 'b:1'],
    queues: ['', 'a:1', 'a:2', 'b:2', 'd:1', 'a:2 b:2', 'd:1 b:2 a:2', 'd:1 d:2', 'b:2 a:1'],
  },
  // Each beside those who share the lock, and those who wait for that.
  {
    holders: ['', 'b:1', 'b:1*', 'a:1* b:1*', 'b:1/2', 'a:1/2 b:1/2'],
    queues: [
      '',
      'a:1*',
      'b:2',
      'b:2*',
      'b:2* b:3*',
      'b:2* d:1* a:2* b:3 b:4*',
      'b:2 b:3*',
      'd:1 b:2*',
      'b:2/2 b:3/2',
      'b:2/3 b:3/2',
      'd:1/3 b:2/3 b:3 b:4/2',
      'a:1/2',
    ],
  },
];
const ASKERS = [
  ['a:1', 'a:2', 'c:1'],
  ['a:1', 'a:1*', 'a:2*', 'c:1*', 'a:1/2', 'c:1/2', 'c:1/3'],
];
const LAST_TOKEN = 7;

type MakeTable = (world: TableWorld) => LockTable;

/**
 * Each request in each state, likely or not: what the explored runs never come to, a minimum hold for instance, is compared
 * with the scripts as well.
 */
export function exchangesByHand(makeTable: MakeTable = (world) => new LockTable(world)): Exchange[] {
  return CLAIMS.flatMap(({ holders, queues }, i) => {
    const states = holders.flatMap((held) => queues.map((queue) => ({ held: claimsOf(held), queue: claimsOf(queue) })));
    return states.flatMap(({ held, queue }) =>
      requests(ASKERS[i])
        .filter(({ body }) => isPossible(held, queue, body))
        .map((request) => run(makeTable, held, queue, request)),
    );
  });
}

/** `a:1` wants the lock alone, `a:1*` shares it, `a:1/2` wants one of two permits. */
function claimOf(text: string): QueueEntry {
  const [owner, permits] = text.replace('*', '').split('/');
  return { owner, mode: permits !== undefined ? Number(permits) : text.endsWith('*') ? 'shared' : 'exclusive' };
}

/** No owner changes its mode, and none that shares the lock waits for it as well. */
function isPossible(held: readonly QueueEntry[], queue: readonly QueueEntry[], asker: QueueEntry): boolean {
  const claims = [...held, ...queue, asker];
  const modes = new Map(claims.map(({ owner, mode }) => [owner, mode]));
  const steady = claims.every(({ owner, mode }) => modes.get(owner) === mode);
  return steady && !held.some(({ owner, mode }) => mode !== 'exclusive' && queue.some((one) => one.owner === owner));
}

function claimsOf(text: string): QueueEntry[] {
  return text.split(' ').filter(Boolean).map(claimOf);
}

function requests(askers: readonly string[]): Request[] {
  const ask = (claim: QueueEntry, queue: boolean, leaseMs: number, expiresAt: number): Request => {
    const body: AcquireRequest = { ...TERMS, ...claim, leaseMs, queue, expiresAt };
    return { verb: 'acquire', body, onReply: () => undefined, sender: undefined };
  };
  const release = (claim: QueueEntry, keepMs: number): Request => {
    const body: ReleaseRequest = { ...TERMS, ...claim, keepMs };
    return { verb: 'release', body, onReply: () => undefined, sender: undefined };
  };
  const extend = (claim: QueueEntry, leaseMs: number): Request => {
    return { verb: 'extend', body: { keys: [KEY], ...claim, leaseMs }, onReply: () => undefined, sender: undefined };
  };
  return askers
    .map(claimOf)
    .flatMap((claim) => [
      ...[true, false].flatMap((queue) => [
        ask(claim, queue, 30_000, 1),
        ask(claim, queue, 1_000, 0),
        ask(claim, queue, 1_000, -1),
      ]),
      ...[0, 500, 20_000].map((keepMs) => release(claim, keepMs)),
      ...[1_000, 30_000].map((leaseMs) => extend(claim, leaseMs)),
    ]);
}

function run(
  makeTable: MakeTable,
  held: readonly QueueEntry[],
  queue: readonly QueueEntry[],
  request: Request,
): Exchange {
  const told: TableHandoff[] = [];
  const listens = (instanceId: string): boolean => instanceId !== 'd';
  const tell = (handedOver: TableHandoff): void => void told.push(handedOver);
  const table = makeTable({ now: () => 0, wallTime: () => 0, listens, tell });
  table.lastToken = LAST_TOKEN;
  const holders: readonly Holder[] = held.map((claim, i) => ({
    ...claim,
    token: 5 - i,
    expiresAt: 10_000 + 1_000 * i,
  }));
  const row = { holders: holders.map((holder) => ({ ...holder })), queue: [...queue] };
  table.rows.set(KEY, row);
  const reply = answerOf(table, request);
  const after = { ...rowOf(table), lastToken: table.lastToken };
  const owners = [...queue, request.body].map(({ owner }) => owner);
  const listening = owners.filter((owner) => listens(instanceOf(owner)));
  return { now: 0, before: { holders, queue, lastToken: LAST_TOKEN }, listening, request, reply, after, told };
}
