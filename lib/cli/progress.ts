import type { Clock } from '../core/time/clock.js';
import { formatDuration } from './duration.js';
import { lockCount } from './lock-view.js';

/** After this time the progress is shown, and this often. */
const PROGRESS_MS = 500;

/** Calls `show` with a line on the progress of a scan, again and again. Returns a function that stops this. */
export function reportProgress(clock: Clock, found: () => number, show: (line: string) => void): () => void {
  const startedAt = clock.now();
  const report = (): void => {
    show(`Scanning for ${formatDuration(clock.now() - startedAt)}, ${lockCount(found())} found`);
    timer = clock.schedule(PROGRESS_MS, report, true);
  };
  let timer = clock.schedule(PROGRESS_MS, report, true);
  return () => timer.cancel();
}
