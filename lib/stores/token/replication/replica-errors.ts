import { LockReplicationError, messageOf } from '../../../core/errors.js';
import { withoutArguments } from '../../../redis/redis-errors.js';
import type { ServerClient } from '../../../redis/client-port.js';
import type { ReplicaDemand } from '../../store-context.js';

/** Errors of WAIT that do not go away by themselves. */
const PERMANENT = /unknown command|NOPERM|not (?:allowed|supported)|unsupported|can't run this command/i;

/** Returns how many replicas the server has. Undefined if the server does not say. */
export async function replicasOf(connection: ServerClient): Promise<number | undefined> {
  const info = await connection.send('info', [], ['replication']).catch(() => '');
  const found = /^connected_slaves:(\d+)/m.exec(String(info));
  return found === null ? undefined : Number(found[1]);
}

/** Returns the error for a lock that too few replicas acknowledged in time. */
export function tooFewReplicas(
  { min, timeoutMs }: ReplicaDemand,
  acknowledged: number,
  replicas: number | undefined,
): LockReplicationError {
  const missing = replicas !== undefined && replicas < min ? `; the server has ${replicas} connected` : '';
  const wanted = `${min} (replicas.min) within ${timeoutMs} ms (replicas.timeoutMs)`;
  return new LockReplicationError(`Too few replicas know of the lock: ${acknowledged} of ${wanted}${missing}.`);
}

/** Returns the error for a refused WAIT. */
export function waitRefused(error: Error): LockReplicationError {
  const message = messageOf(error);
  const cause = withoutArguments(error);
  if (!PERMANENT.test(message))
    return new LockReplicationError(`Replicas cannot be waited for: ${message}.`, { cause });
  const advice = 'connect to Redis itself, allow its user WAIT, or leave the `replicas` option out';
  const why = `WAIT is refused here: ${advice} (${message})`;
  return new LockReplicationError(`Replicas cannot be waited for, ${why}.`, { cause, permanent: true });
}

/** Returns true if the server that replied is a replica itself. */
export function isFromReplica(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

/** Returns the error for a lock that was granted, but was not found when the replicas had to acknowledge it. */
export function lockGone(): LockReplicationError {
  return new LockReplicationError('The lock was gone before replicas knew of it: it may have been lost in a failover.');
}
