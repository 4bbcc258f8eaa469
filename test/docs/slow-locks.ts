import { type LockCallContext, lockTracing } from 'nestjs-redis-lock';

export function logSlowLocks(limitMs: number, log: (line: string) => void): () => void {
  const onEnd = (message: unknown): void => {
    const { id, resource, outcome, waitedMs = 0, heldMs = 0 } = message as LockCallContext;
    if (waitedMs + heldMs > limitMs) log(`${id} ${resource}: waited ${waitedMs} ms, held ${heldMs} ms, ${outcome}`);
  };
  lockTracing.hold.asyncEnd.subscribe(onEnd);
  return () => lockTracing.hold.asyncEnd.unsubscribe(onEnd);
}
