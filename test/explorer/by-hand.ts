import { instanceOf, type AskRequest, type ReleaseRequest } from '../../lib/core/lock-store.js';
import { type HandedOver, type Holder, LockTable, type TableWorld } from '../../lib/stores/memory/lock-table.js';
import { answerOf, type Exchange, rowOf } from './exchange.js';
import type { Request } from './network.js';
import { KEY } from './scenario.js';

const TERMS = { keys: [KEY], handOffMs: 3_000, tokens: 3 } as const;
const HOLDERS = [undefined, 'a:1', 'b:1'];
/** Nobody listens for `d`. */
const QUEUES = [
  [],
  ['a:1'],
  ['a:2'],
  ['b:2'],
  ['d:1'],
  ['a:2', 'b:2'],
  ['d:1', 'b:2', 'a:2'],
  ['d:1', 'd:2'],
  ['b:2', 'a:1'],
];
const LAST_TOKEN = 7;

type MakeTable = (world: TableWorld) => LockTable;

/**
 * Each request in each state, likely or not: what the explored runs never come to, a minimum hold for instance, is compared
 * with the scripts as well.
 */
export function exchangesByHand(makeTable: MakeTable = (world) => new LockTable(world)): Exchange[] {
  return HOLDERS.flatMap((holder) =>
    QUEUES.flatMap((queue) => requests().map((request) => run(makeTable, holder, queue, request))),
  );
}

function requests(): Request[] {
  const ask = (owner: string, queue: boolean, leaseMs: number, expiresAt: number): Request => {
    const body: AskRequest = { ...TERMS, owner, mode: 'exclusive', leaseMs, queue, expiresAt };
    return { verb: 'ask', body, answered: () => undefined, asker: undefined };
  };
  const release = (owner: string, keepMs: number): Request => {
    const body: ReleaseRequest = { ...TERMS, owner, keepMs };
    return { verb: 'release', body, answered: () => undefined, asker: undefined };
  };
  const extend = (owner: string, leaseMs: number): Request => {
    return { verb: 'extend', body: { keys: [KEY], owner, leaseMs }, answered: () => undefined, asker: undefined };
  };
  const owners = ['a:1', 'a:2', 'c:1'];
  return owners.flatMap((owner) => [
    ...[true, false].flatMap((queue) => [
      ask(owner, queue, 30_000, 1),
      ask(owner, queue, 1_000, 0),
      ask(owner, queue, 1_000, -1),
    ]),
    ...[0, 500, 20_000].map((keepMs) => release(owner, keepMs)),
    ...[1_000, 30_000].map((leaseMs) => extend(owner, leaseMs)),
  ]);
}

function run(makeTable: MakeTable, owner: string | undefined, queue: readonly string[], request: Request): Exchange {
  const told: HandedOver[] = [];
  const listens = (instanceId: string): boolean => instanceId !== 'd';
  const tell = (handedOver: HandedOver): void => void told.push(handedOver);
  const table = makeTable({ now: () => 0, wallTime: () => 0, listens, tell });
  table.lastToken = LAST_TOKEN;
  const holder: Holder | undefined = owner === undefined ? undefined : { owner, token: 5, expiresAt: 10_000 };
  const row = { holder: holder && { ...holder }, queue: [...queue] };
  (Reflect.get(table, 'rows') as Map<string, unknown>).set(KEY, row);
  const reply = answerOf(table, request);
  const after = { holder: rowOf(table).holder, queue: rowOf(table).queue, lastToken: table.lastToken };
  const listening = queue.filter((one) => listens(instanceOf(one)));
  return { now: 0, before: { holder, queue, lastToken: LAST_TOKEN }, listening, request, reply, after, told };
}
