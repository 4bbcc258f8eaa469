import { appendFileSync, readFileSync } from 'node:fs';
import type { OpEvent } from '../history/events.js';

/** Appends to a worker's history, synchronously, so that nothing is missing after a SIGKILL. */
export function write(file: string, event: OpEvent): void {
  appendFileSync(file, `${JSON.stringify(event)}\n`);
}

/** Reads a worker's history. Ignores an incomplete last line. */
export function read(file: string): readonly OpEvent[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as OpEvent);
}
