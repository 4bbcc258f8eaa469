import { type EndedEvent, type GrantedEvent, lockChannels } from 'nestjs-redis-lock';

export function watchLocks(report: (line: string) => void): () => void {
  const { granted, lost } = lockChannels;
  const onGranted = (message: unknown): void => {
    const { resource, waitedMs } = message as GrantedEvent;
    report(`${resource} granted after ${Math.round(waitedMs)} ms`);
  };
  const onLost = (message: unknown): void => {
    const { resource, heldMs } = message as EndedEvent;
    report(`${resource} lost after ${Math.round(heldMs)} ms`);
  };
  granted.subscribe(onGranted);
  lost.subscribe(onLost);
  return () => {
    granted.unsubscribe(onGranted);
    lost.unsubscribe(onLost);
  };
}
