import { kindOf, type LockMode, type LockModeKind } from '../../../../lib/contract/lock-mode.js';
import type { OpEvent } from '../history/events.js';
import type { Resource, Seen } from './resource.js';

/** The work under a lock. */
export interface Use {
  readonly op: string;
  readonly token: number | undefined;
  readonly resource: Resource;
  readonly now: () => number;
  readonly log: (event: OpEvent) => void;
}

/** Does the work after the pauses. Returns its event, if it has one. */
export type Finish = () => Promise<OpEvent | undefined>;

/** Reads before the pauses. */
export async function see({ op, token, resource, now, log }: Use): Promise<Seen> {
  const from = now();
  const seen = await resource.open(token);
  const { register, fenced, opened } = seen;
  log({ kind: 'saw', op, from, at: now(), register, fenced: opened ? fenced : null });
  return seen;
}

/** Writes after the pauses, over what was read. */
export function writeOver(seen: Seen, { op, token, resource, now, log }: Use): Finish {
  return async () => {
    log({ kind: 'writes', op, at: now() });
    const written = await resource.write(op, token, seen);
    return { kind: 'ok', op, at: now(), ...written };
  };
}

/** Reads before and after the pauses. No caller may write in between. */
async function readTwice({ op, resource, now }: Use): Promise<Finish> {
  const from = now();
  const first = await resource.read();
  return async () => ({ kind: 'read', op, from, first, second: await resource.read(), at: now() });
}

/** Does nothing: only the number of permit holders counts. */
const nothing = (): Promise<Finish> => Promise.resolve(() => Promise.resolve(undefined));

const uses: Record<LockModeKind, (use: Use) => Promise<Finish>> = {
  exclusive: async (use) => writeOver(await see(use), use),
  shared: readTwice,
  permits: nothing,
};

/** Does the work before the pauses. */
export function begin(mode: LockMode, use: Use): Promise<Finish> {
  return uses[kindOf(mode)](use);
}
