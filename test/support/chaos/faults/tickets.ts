import { eventually } from '../../redis-locks.js';
import { type Fault, leases } from './fault.js';
import { dataKept } from './loads.js';

/** Faults of locks that are detached within their holds. The next process resumes them, or releases them. */

const LEASE_MS = 600;

const ticketLate: Fault = {
  name: 'ticket used late',
  what: 'SIGSTOP of a process that gets a ticket, past its lease; SIGCONT while another process holds the lock',
  ablation: 'owner check of tickets',
  breaks: 'overlap',
  terms: leases(LEASE_MS),
  promises: { waitMs: 5_000, losesHolds: true },
  stores: { token: {} },
  workload: 'tickets',
  async inject(scene) {
    const { fleet, random } = scene;
    const late = fleet.other(random);
    await fleet.rest();
    scene.injected(this.name);
    late.stop();
    fleet.go(fleet.members.filter((member) => member !== late));
    await eventually('it has a ticket', () => late.holds);
    await scene.sleep(LEASE_MS);
    await fleet.longHold(fleet.other(random, late), 800);
    await scene.sleep(100);
    late.goOn();
    scene.healed(this.name);
    fleet.go();
    await scene.settle();
  },
};

const ticketsKept: Fault = {
  ...dataKept,
  name: 'mixed, detached and resumed',
  ablation: 'tokens of tickets',
  breaks: 'token',
  workload: 'tickets',
};

export const ticketFaults = [ticketLate, ticketsKept] as const;
