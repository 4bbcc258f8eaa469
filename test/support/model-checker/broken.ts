import type { AcquireReply, AcquireRequest, ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { LockTable, type PlacedEntry } from '../../../lib/stores/memory/lock-table.js';
import type { Process } from './process.js';
import type { Variant } from './scenario.js';

/** Releases the lock for any owner. */
class UncheckedTable extends LockTable {
  override release(request: ReleaseRequest): boolean {
    const owner = this.living(request.keys[0]).at(0)?.owner ?? request.owner;
    return super.release({ ...request, owner });
  }
}

/** Keeps the queue entry of an owner that leaves. */
class UnforgettingTable extends LockTable {
  override release(request: ReleaseRequest): boolean {
    return this.living(request.keys[0]).at(0)?.owner === request.owner && super.release(request);
  }
}

/** Puts a new entry before all that wait. */
export class OvertakingTable extends LockTable {
  override acquire(request: AcquireRequest): AcquireReply {
    const reply = super.acquire(request);
    for (const { queue } of this.rows.values())
      if (queue.at(-1)?.owner === request.owner) queue.unshift(...queue.splice(-1));
    return reply;
  }
}

/** Counts a waiter as gone as soon as it is prompted. */
class ImpatientTable extends LockTable {
  protected override isSilent({ promptedAt }: PlacedEntry): boolean {
    return promptedAt !== undefined;
  }
}

export const noTimeAfterPrompt: Variant = {
  name: 'no time to repeat a request after a prompt',
  table: (world) => new ImpatientTable(world),
};

export const noLeaving: Variant = {
  name: 'no leaving of the queue',
  table: (world) => new UnforgettingTable(world),
};

export const noReleaseBehind: Variant = {
  name: 'no release behind a request that is given up',
  givesUpSilently: true,
};

export const noOwnerCheck: Variant = {
  name: 'no owner check',
  table: (world) => new UncheckedTable(world),
};

/** A handoff's lease counts from when it is received, however old it is. */
export const noAgeBound: Variant = {
  name: 'no age bound',
  grantedAt: (_, now) => now,
};

/** Queued attempts never repeat their request. */
export const noSafetyNet: Variant = {
  name: 'no safety net',
  afterStep: ({ loops }) => {
    for (const loop of loops)
      if (loop.state.kind === 'waiting' && loop.state.attempt.needsRelease) loop.state.timer.cancel();
  },
};

/** A process that gets a message about a release by force loses the lock that it has by then. */
export const noCheckOfForce: Variant = {
  name: 'no question after a message about a release by force',
  trustsForced: true,
};

/** All attempts of a process have one owner. */
export const instanceIdForAskId: Variant = {
  name: 'instance id in place of the attempt id',
  nextOwner: ({ instanceId }: Process) => `${instanceId}:1`,
};
