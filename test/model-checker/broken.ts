import type { ReleaseRequest } from '../../lib/core/store/lock-store.js';
import { LockTable } from '../../lib/stores/memory/lock-table.js';
import type { Process } from './process.js';
import type { Variant } from './scenario.js';

/** Ends whosever lock it is. */
class CarelessTable extends LockTable {
  override release(request: ReleaseRequest): boolean {
    const owner = this.living(request.keys[0]).at(0)?.owner ?? request.owner;
    return super.release({ ...request, owner });
  }
}

/** Whose lock has not come yet keeps its place in the queue. */
class RememberingTable extends LockTable {
  override release(request: ReleaseRequest): boolean {
    return this.living(request.keys[0]).at(0)?.owner === request.owner && super.release(request);
  }
}

export const noLeaving: Variant = {
  name: 'no leaving of the queue',
  table: (world) => new RememberingTable(world),
};

export const noReleaseBehind: Variant = {
  name: 'no release behind an ask that is given up',
  givesUpSilently: true,
};

export const noOwnerCheck: Variant = {
  name: 'no owner check',
  table: (world) => new CarelessTable(world),
};

/** A hand-off counts from when it is heard, however old it is. */
export const noAgeBound: Variant = {
  name: 'no age bound',
  grantedAt: (_, now) => now,
};

/** Who is in the queue relies on being told. */
export const noSafetyNet: Variant = {
  name: 'no safety net',
  afterStep: ({ loop }) => {
    if (loop?.state.kind === 'waiting' && loop.state.attempt.needsRelease) loop.state.timer.cancel();
  },
};

/** All asks of a process have one owner. */
export const instanceIdForAskId: Variant = {
  name: 'instance id in place of the ask id',
  nextOwner: ({ instanceId }: Process) => `${instanceId}:1`,
};
