import { attemptChannel, type AttemptEvent } from 'nestjs-redis-lock';

export function watchAttempts(report: (line: string) => void): () => void {
  const onAttempt = (message: unknown): void => {
    const { resource, outcome, heldBy = 'nobody known', queuedAhead = 0 } = message as AttemptEvent;
    report(`${resource}: ${outcome}, held by ${heldBy}, ${queuedAhead} before this instance`);
  };
  attemptChannel.subscribe(onAttempt);
  return () => attemptChannel.unsubscribe(onAttempt);
}
