import { createHash, randomBytes } from 'node:crypto';
import { LockKeyError } from '../common/errors.js';
import { kindOf } from '../common/format-value.js';

/** `t1-`, then 16 random bytes and the lease in 6, in base64url. */
const TICKET = /^t1-[\w-]{30}$/;
const RANDOM_BYTES = 16;
const LEASE_BYTES = 6;

/** What `inspect()` and `list()` show as the holder of a detached lock. */
const HOLDER = 'detached';

/** What a ticket stands for. */
export interface Ticket {
  /** The owner of the detached lock. It contains a hash of the ticket, so Redis never has the ticket itself. */
  readonly owner: string;
  /** The lease that a renewal sets by default, in milliseconds. */
  readonly ttlMs: number;
}

/** Returns a new ticket. A caller with it can resume, renew and release the lock that is given to its owner. */
export function newTicket(ttlMs: number): string {
  const bytes = Buffer.alloc(RANDOM_BYTES + LEASE_BYTES);
  randomBytes(RANDOM_BYTES).copy(bytes);
  bytes.writeUIntBE(Math.ceil(ttlMs), RANDOM_BYTES, LEASE_BYTES);
  return `t1-${bytes.toString('base64url')}`;
}

/**
 * Returns what a ticket stands for. The hash is that of the whole ticket, so a ticket with another lease has another
 * owner.
 *
 * @throws LockKeyError if this is not a ticket. The error does not contain the value.
 */
export function readTicket(ticket: unknown, resource: string): Ticket {
  if (typeof ticket !== 'string' || !TICKET.test(ticket)) {
    const given = typeof ticket === 'string' ? `a string of ${ticket.length} characters` : kindOf(ticket);
    const message = `The ticket of ${resource} is ${given}; expected what detach() returned.`;
    throw new LockKeyError(message, { resource, byClient: true });
  }
  const hash = createHash('sha256').update(ticket).digest('base64url');
  const ttlMs = Buffer.from(ticket.slice(3), 'base64url').readUIntBE(RANDOM_BYTES, LEASE_BYTES);
  return { owner: `${HOLDER}:${hash}`, ttlMs };
}
