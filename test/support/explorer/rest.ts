import { instanceOf } from '../../../lib/contract/instance-id.js';
import type { LockTable } from '../../../lib/stores/memory/lock-table.js';
import type { Instance } from './instance.js';
import type { Referee } from './referee.js';

/** Reports what engines, or a table, keep for owners that are over. Called when all is quiet. */
export function lookForRest(instances: readonly Instance[], referee: Referee, table: LockTable | undefined): void {
  for (const { engine, isDead, isClosing } of instances) {
    if (isDead) continue;
    if (engine['queues'].size > 0) referee.report(`queues are left: ${[...engine['queues'].keys()].join()}`);
    if (engine.holds().length > 0) referee.report('holds are left');
    // A shutdown does not wait for a release that gets no reply.
    if (!isClosing && engine['parts'].releaser['unanswered'].size > 0) referee.report('releases are left');
  }
  const live = instances.filter(({ isDead, isClosing }) => !isDead && !isClosing);
  const ids = new Set(live.map(({ engine }) => engine.instanceId));
  for (const key of table?.rows.keys() ?? []) {
    const owners = [...(table?.holders(key) ?? []), ...(table?.waiting(key) ?? [])].map(({ owner }) => owner);
    if (owners.some((owner) => ids.has(instanceOf(owner)))) referee.report(`the store keeps ${key} for an owner`);
  }
}
