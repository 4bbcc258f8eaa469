import { isOne, RedisScript, toRemainingMs } from '../../redis/redis-script.js';
import { scripts as redisScripts } from '../../redis/scripts.js';
import { otherWireOf } from '../../redis/wire.js';
import { scripts } from './scripts.js';

/** What one node keeps of a lock. */
export interface NodeLock {
  /** The ballot, or the value of another system. The same on all nodes that gave the lock. */
  readonly ballot: string;
  /** The holder's instance. Undefined if another system's client holds the lock. */
  readonly instanceId: string | undefined;
  readonly remainingMs: number;
  readonly token: number | undefined;
  /** The wire version that wrote it, if it is another one. */
  readonly wireVersion: number | undefined;
}

/** A node's vote for a ballot: the token with which it gives the lock, or what it keeps for another owner. */
export type NodeVote = number | NodeLock;

/** The value of a lock: `<instance>:<attempt> <round> <token>`, behind `!` if its owner has closed it. */
const OURS = /^(!?([\w-]+):\d+ \d+) (\d+)$/;

/** What a node is asked. Clients with `stringNumbers` receive numbers as strings. */
export const nodeScripts = {
  /** Replies with the vote and the node's time in µs. */
  acquire: new RedisScript(scripts.acquire, (reply): { readonly vote: NodeVote; readonly now: number } => {
    const [granted, now, number, value] = reply as readonly [number | string, string, number | string, string];
    return { vote: isOne(granted) ? Number(number) : lockOf(value, number), now: Number(now) };
  }),
  writeBack: new RedisScript(scripts.writeBack, isOne),
  release: new RedisScript(scripts.release, isOne),
  /** Replies 1: renewed, 0: another owner has the lock on the node, or -1: nobody has it there. */
  extend: new RedisScript(scripts.extend, Number),
  inspect: new RedisScript(redisScripts.inspect, (reply) =>
    reply === null ? null : lockOf(...(reply as readonly [string, number | string])),
  ),
};

function lockOf(value: string, ttl: number | string): NodeLock {
  const { instanceId, version: wireVersion } = otherWireOf(value) ?? {};
  // What follows an instance of another version may differ between the nodes.
  const [, ballot = instanceId ?? value, own = instanceId, token] = OURS.exec(value) ?? [];
  const remainingMs = toRemainingMs(ttl);
  return { ballot, instanceId: own, remainingMs, token: token === undefined ? undefined : Number(token), wireVersion };
}
