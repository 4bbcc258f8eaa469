import { type EndedEvent, type GrantedEvent, lockChannels } from 'nestjs-redis-lock';

export function watchLocks(report: (line: string) => void): void {
  lockChannels.granted.subscribe((event) => {
    const { resource, waitedMs } = event as GrantedEvent;
    report(`${resource} granted after ${Math.round(waitedMs)} ms`);
  });
  lockChannels.lost.subscribe((event) => {
    const { resource, heldMs } = event as EndedEvent;
    report(`${resource} lost after ${Math.round(heldMs)} ms`);
  });
}
