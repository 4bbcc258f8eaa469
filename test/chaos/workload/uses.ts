import { kindOf, type LockMode, type LockModeKind } from '../../../lib/core/store/lock-mode.js';
import type { OpEvent } from '../history/events.js';
import type { Resource } from './resource.js';

/** What is done under a lock, and for whom. */
export interface Use {
  readonly op: string;
  readonly token: number | undefined;
  readonly resource: Resource;
  readonly now: () => number;
}

/** What comes behind the pauses; answers what is to be told of it. */
type Finish = () => Promise<OpEvent | undefined>;

/** Whoever holds the lock alone writes what it has made of what it read before the pauses. */
async function write({ op, token, resource, now }: Use): Promise<Finish> {
  const seen = await resource.open(token);
  return async () => ({ kind: 'ok', op, at: now(), ...(await resource.write(op, token, seen)) });
}

/** A reader reads again what it has read: nobody may have written meanwhile. */
async function readTwice({ op, resource, now }: Use): Promise<Finish> {
  const first = await resource.read();
  return async () => ({ kind: 'read', op, first, second: await resource.read(), at: now() });
}

/** Of permits it counts how many are held. */
const nothing = (): Promise<Finish> => Promise.resolve(() => Promise.resolve(undefined));

const uses: Record<LockModeKind, (use: Use) => Promise<Finish>> = {
  exclusive: write,
  shared: readTwice,
  permits: nothing,
};

/** Does what comes before the pauses. */
export function begin(mode: LockMode, use: Use): Promise<Finish> {
  return uses[kindOf(mode)](use);
}
