import { LockReplicationError, messageOf } from '../../../core/errors.js';
import { withoutArguments } from '../../../redis/redis-errors.js';
import type { ReplicaDemand, ReplicaConnection } from './replica-options.js';

/** What does not change by itself; a replica that was a master until now says that it has no WAIT, too. */
const FOR_GOOD = /unknown command|NOPERM|not (?:allowed|supported)|unsupported|can't run this command/i;

/** How many replicas the server has; undefined where it does not tell. */
export async function replicasOf(link: ReplicaConnection): Promise<number | undefined> {
  const info = await link.info('replication').catch(() => '');
  const found = /^connected_slaves:(\d+)/m.exec(String(info));
  return found === null ? undefined : Number(found[1]);
}

/** Too few have acknowledged in time. */
export function tooFew(
  { min, timeoutMs }: ReplicaDemand,
  acknowledged: number,
  replicas: number | undefined,
): LockReplicationError {
  const missing = replicas !== undefined && replicas < min ? `; the server has ${replicas} connected` : '';
  const wanted = `${min} (replicas.min) within ${timeoutMs} ms (replicas.timeoutMs)`;
  return new LockReplicationError(`Too few replicas know of the lock: ${acknowledged} of ${wanted}${missing}.`);
}

/** WAIT was refused. */
export function refused(error: Error): LockReplicationError {
  const message = messageOf(error);
  const cause = withoutArguments(error);
  if (!FOR_GOOD.test(message)) return new LockReplicationError(`Replicas cannot be waited for: ${message}.`, { cause });
  const advice = 'connect to Redis itself, allow its user WAIT, or leave the `replicas` option out';
  const why = `WAIT is refused here: ${advice} (${message})`;
  return new LockReplicationError(`Replicas cannot be waited for, ${why}.`, { cause, permanent: true });
}

/** Who answers so is a replica itself. */
export function isOfReplica(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

/** What was granted just now is not there, where replicas would have to know of it. */
export function notThere(): LockReplicationError {
  return new LockReplicationError('The lock was gone before replicas knew of it: it may have been lost in a failover.');
}
