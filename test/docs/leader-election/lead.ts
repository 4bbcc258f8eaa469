import { type Leadership, type Lock, LockLostError, type LockService } from 'nestjs-redis-lock';

export function leadQueue(locks: LockService, log: (line: string) => void): Leadership {
  return locks.lead('queue', {
    ttlMs: 10_000,
    onElected: (lock: Lock) => log(`leads with token ${lock.fencingToken}`),
    onDeposed: (reason) =>
      log(reason instanceof LockLostError ? `was deposed: ${reason.message}` : 'stepped down'),
  });
}
