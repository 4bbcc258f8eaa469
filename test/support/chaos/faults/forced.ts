import { type Fault, leases } from './fault.js';

/** The fault of an operator who releases a lock that is not stuck. */

const LEASE_MS = 15_000;
const REQUEST_MS = 1_000;
const NO_END_MS = 60_000;
/** Far more than the 100 ms that a message usually takes, and less than the time to the next renewal. */
const BY_MESSAGE_MS = 3_000;
/** Until the next renewal, after a third of the lease. Its reply, and room. */
const BY_RENEWAL_MS = LEASE_MS / 3 + REQUEST_MS + 2_000;

const BY_RENEWAL = { noticeMs: BY_RENEWAL_MS, overlapMs: BY_RENEWAL_MS };

const releasedByForce: Fault = {
  name: 'released by force',
  what: 'another process releases the lock by force while it is held and waited for; the former holder writes late',
  ablation: 'notices of forced releases',
  breaks: 'late notice',
  terms: leases(LEASE_MS, { requestTimeoutMs: REQUEST_MS, waitMs: 18_000 }),
  promises: { waitMs: 6_000, noticeMs: BY_MESSAGE_MS, overlapMs: BY_MESSAGE_MS, losesHolds: true },
  stores: { token: {}, timestamp: BY_RENEWAL, redisson: BY_RENEWAL },
  async inject(scene) {
    const { fleet, random } = scene;
    const former = fleet.other(random);
    const operator = fleet.other(random, former);
    await fleet.longHold(former, NO_END_MS, { lookAfterMs: 50 });
    await fleet.looked(former);
    await fleet.allWait(former);
    scene.injected(this.name);
    await scene.forceRelease(former, operator);
    scene.healed(this.name);
    await fleet.lost(former);
    await fleet.written(former);
    await scene.settle(former);
  },
};

export const forcedFaults = [releasedByForce] as const;
