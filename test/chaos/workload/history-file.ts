import { appendFileSync, readFileSync } from 'node:fs';
import type { OpEvent } from '../history/events.js';

/** Appends to a worker's history. Written at once, so that nothing is missing behind a SIGKILL. */
export function write(file: string, event: OpEvent): void {
  appendFileSync(file, `${JSON.stringify(event)}\n`);
}

/** A last line that was cut off with its writer does not count. */
export function read(file: string): readonly OpEvent[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as OpEvent);
}
