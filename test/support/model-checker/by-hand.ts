import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { AcquireRequest, ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import {
  type Holder,
  LockTable,
  type LockTableDeps,
  type PlacedEntry,
  type QueueEntry,
  SILENT_MS,
  type TableHandoff,
} from '../../../lib/stores/memory/lock-table.js';
import { replyOf, type Exchange, rowOf } from './exchange.js';
import type { Request } from './network.js';
import { KEY } from './scenario.js';

const REQUEST = { keys: [KEY], handoffMs: 3_000, tokens: 3 } as const;
/** The instance `d` is not subscribed. */
const STATES: readonly { readonly holders: readonly string[]; readonly queues: readonly string[] }[] = [
  {
    // The instance of `b:01` may keep the lock.
    holders: ['', 'a:1', 'b:1', 'b:01'],
    queues: ['', 'a:1', 'a:2', 'b:2', 'd:1', 'a:2 b:2', 'd:1 b:2 a:2', 'd:1 d:2', 'b:2 a:1'],
  },
  // With waiters that were prompted lately (`?`) or have been silent since (`!`).
  {
    holders: ['', 'a:1', 'b:1*', 'b:1/2'],
    queues: ['a:2?', 'a:2! b:2', 'b:2! b:3? a:2 c:1', 'b:2 a:1? c:1!', 'b:2*? d:1! b:3*! c:1*', 'b:2/2! b:3/2? c:1/2'],
  },
  // With shared holders and shared waiters.
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
const OWNERS = [
  ['a:1', 'a:2', 'c:1'],
  ['a:1', 'a:2', 'c:1', 'c:1*', 'c:1/2'],
  ['a:1', 'a:1*', 'a:2*', 'c:1*', 'a:1/2', 'c:1/2', 'c:1/3'],
];
const LAST_TOKEN = 7;

type MakeTable = (world: LockTableDeps) => LockTable;

/**
 * Returns every request in every state, including states that no explored run reaches, for instance a minimum hold.
 * They are compared with the scripts, too.
 */
export function exchangesByHand(makeTable: MakeTable = (world) => new LockTable(world)): Exchange[] {
  return STATES.flatMap(({ holders, queues }, i) => {
    const states = holders.flatMap((held) =>
      queues.map((queue) => ({ held: entriesOf(held), queue: queue.split(' ').filter(Boolean).map(placedOf) })),
    );
    return states.flatMap(({ held, queue }) =>
      [...requests(OWNERS[i]), ...held.slice(0, 1).map(force)]
        .filter(({ body }) => isPossible(held, queue, body))
        .map((request) => run(makeTable, held, queue, request)),
    );
  });
}

/** Parses an entry: `a:1` is exclusive, `a:1*` shared, `a:1/2` one of two permits. */
function entryOf(text: string): QueueEntry {
  const [owner, permits] = text.replace('*', '').split('/');
  return { owner, mode: permits !== undefined ? Number(permits) : text.endsWith('*') ? 'shared' : 'exclusive' };
}

/** Parses an entry of a queue. */
function placedOf(text: string): PlacedEntry {
  const promptedAt = text.endsWith('?') ? 0 : text.endsWith('!') ? -SILENT_MS : undefined;
  return { ...entryOf(text.replace(/[?!]$/, '')), promptedAt };
}

/** Returns false if an owner changes its mode, or if a shared holder is in the queue as well. */
function isPossible(held: readonly QueueEntry[], queue: readonly QueueEntry[], sender: QueueEntry): boolean {
  const entries = [...held, ...queue, sender];
  const modes = new Map(entries.map(({ owner, mode }) => [owner, mode]));
  const steady = entries.every(({ owner, mode }) => modes.get(owner) === mode);
  return steady && !held.some(({ owner, mode }) => mode !== 'exclusive' && queue.some((one) => one.owner === owner));
}

function entriesOf(text: string): QueueEntry[] {
  return text.split(' ').filter(Boolean).map(entryOf);
}

function requests(owners: readonly string[]): Request[] {
  const acquire = (entry: QueueEntry, queue: boolean, leaseMs: number, expiresAt: number): Request => {
    const body: AcquireRequest = { ...REQUEST, ...entry, leaseMs, queue, expiresAt };
    return { verb: 'acquire', body, onReply: () => undefined, sender: undefined };
  };
  const release = (entry: QueueEntry, closedForMs: number): Request => {
    const body: ReleaseRequest = { ...REQUEST, ...entry, closedForMs };
    return { verb: 'release', body, onReply: () => undefined, sender: undefined };
  };
  const extend = (entry: QueueEntry, leaseMs: number): Request => {
    return { verb: 'extend', body: { keys: [KEY], ...entry, leaseMs }, onReply: () => undefined, sender: undefined };
  };
  return owners
    .map(entryOf)
    .flatMap((entry) => [
      ...[true, false].flatMap((queue) => [
        acquire(entry, queue, 30_000, 1),
        acquire(entry, queue, 1_000, 0),
        acquire(entry, queue, 1_000, -1),
      ]),
      ...[0, 500, 20_000].map((closedForMs) => release(entry, closedForMs)),
      ...[1_000, 30_000].map((leaseMs) => extend(entry, leaseMs)),
    ]);
}

/** Somebody releases the lock of this holder, and of those that share it, by force. */
function force({ owner, mode }: QueueEntry): Request {
  const { tokens, handoffMs } = REQUEST;
  return {
    verb: 'forceRelease',
    body: { owner, mode, tokens, handoffMs },
    onReply: () => undefined,
    sender: undefined,
  };
}

function run(
  makeTable: MakeTable,
  held: readonly QueueEntry[],
  queue: readonly PlacedEntry[],
  request: Request,
): Exchange {
  const handoffs: TableHandoff[] = [];
  const isSubscribed = (instanceId: string): boolean => instanceId !== 'd';
  const onHandoff = (handoff: TableHandoff): void => void handoffs.push(handoff);
  const forced: string[] = [];
  const table = makeTable({
    now: () => 0,
    wallTime: () => (LAST_TOKEN + REQUEST.tokens) / 1000,
    isSubscribed,
    onHandoff,
    onForced: (_key, owner) => forced.push(owner),
  });
  table.lastToken = LAST_TOKEN;
  const holders: readonly Holder[] = held.map((entry, i) => ({
    ...entry,
    token: 5 - i,
    expiresAt: 10_000 + 1_000 * i,
  }));
  const row = { holders: holders.map((holder) => ({ ...holder })), queue: queue.map((entry) => ({ ...entry })) };
  table.rows.set(KEY, row);
  const reply = replyOf(table, request);
  const after = { ...rowOf(table), lastToken: table.lastToken };
  const notified = request.verb === 'forceRelease' ? held : [];
  const subscribers = [...notified, ...queue, request.body].map(({ owner }) => owner);
  const listening = subscribers.filter((owner) => isSubscribed(instanceOf(owner)));
  const before = { holders, queue, lastToken: LAST_TOKEN };
  return { now: 0, before, listening, request, reply, after, handoffs, forced };
}
