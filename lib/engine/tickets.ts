import { LockClosedError, LockConfigError, LockLostError, LockUnavailableError } from '../common/errors.js';
import { replyTo } from '../contract/reply-listener.js';
import type { Transferred, TransferReply } from '../contract/store.js';
import type { Target } from '../events/call.js';
import { describeUnsupportedTransfer, ticketIsOver } from './error-texts.js';
import { deadlineOf } from './lease.js';
import type { Lock } from './lock.js';
import type { LockEngine, Parts } from './lock-engine.js';
import { scopeAround } from './lock-scope.js';
import type { AcquireOptions } from './options.js';
import { FIRST_REPEAT_MS, LONGEST_REPEAT_MS } from './releaser.js';
import type { Ticket } from './ticket.js';

/** How the lock of a ticket is requested. */
type TransferOptions = Pick<AcquireOptions, 'ttlMs' | 'unavailableAfterMs'>;

/** Gives detached locks to this instance, renews them and releases them. */
export class Tickets {
  /** The calls to which a lock is being given, by their owners. */
  readonly resuming = new Map<string, Target>();

  constructor(
    private readonly parts: Parts,
    private readonly engine: LockEngine,
  ) {}

  /**
   * Makes a detached lock a hold of this instance. Without a usable reply for `unavailableAfterMs`, gives the lock back
   * to the ticket in the background.
   *
   * @throws LockLostError if the ticket no longer has the lock.
   * @throws LockUnavailableError if the store sent no usable reply in time.
   */
  async resume(target: Target, ticket: Ticket, given: AcquireOptions): Promise<Lock> {
    const { engine, parts } = this;
    const { clock, events } = parts;
    this.checkStore('resume()', target);
    engine.checkOpen(target);
    const startedAt = clock.now();
    const owner = parts.nextOwner();
    events.requested(target, given);
    this.resuming.set(owner, target);
    try {
      const { token, restMs = Infinity, sentAt } = await this.transfer(target, ticket, { owner, ...given });
      const now = clock.now();
      const options = { ...given, maxHoldMs: Math.max(0, restMs - (now - sentAt)) };
      const lock = engine.queueOf(target.key).adopt(target, options, owner, token, sentAt, now);
      scopeAround()?.keep(lock, options.onLost);
      events.granted(lock, target, now - startedAt);
      return lock;
    } catch (reason) {
      events.refused(target, given, clock.now() - startedAt, reason);
      throw reason;
    } finally {
      this.resuming.delete(owner);
      parts.onEnded();
    }
  }

  /**
   * Renews the lease of a detached lock. Never shortens it.
   *
   * @throws what {@link resume} throws.
   */
  async extend(target: Target, ticket: Ticket, options: TransferOptions): Promise<void> {
    this.checkStore('extend()', target);
    await this.transfer(target, ticket, { owner: ticket.owner, ...options });
  }

  /**
   * Releases a detached lock. Returns false if the ticket no longer has it.
   *
   * @throws LockUnavailableError if the store sent no reply. The release is repeated in the background.
   */
  release(target: Target, { owner, ttlMs: leaseMs }: Ticket): Promise<boolean> {
    this.checkStore('release()', target);
    const { resource, key } = target;
    const release = { resource, key, owner, mode: 'exclusive', leaseMs, closedUntil: 0 } as const;
    return this.parts.releaser.release(release, this.parts.clock.now());
  }

  /**
   * Gives the lock of a ticket to an owner, or renews it. Repeats the request for `unavailableAfterMs`, so that the
   * owner gets the lock if an earlier request has run. After that, gives the lock back to the ticket in the background.
   *
   * @returns what the store replied, and when that request was sent.
   * @throws LockUnavailableError if the store sent no usable reply in time. A request may still run.
   */
  private async transfer(
    target: Target,
    ticket: Ticket,
    { owner, ttlMs, unavailableAfterMs = 0 }: TransferOptions & { readonly owner: string },
  ): Promise<Transferred & { readonly sentAt: number }> {
    const { clock, link, releaser } = this.parts;
    const repeatUntil = clock.now() + Math.min(unavailableAfterMs, link.delayed(ticket.ttlMs));
    let mayHaveRun = false;
    for (let pauseMs = FIRST_REPEAT_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_REPEAT_MS)) {
      try {
        return await this.ask(target, ticket, owner, ttlMs);
      } catch (error) {
        const isDecided = error instanceof LockLostError || error instanceof LockClosedError;
        mayHaveRun ||= !(error instanceof LockLostError);
        if (isDecided || !releaser.mayRepeat(error, clock.now() + pauseMs, repeatUntil)) {
          if (owner !== ticket.owner && mayHaveRun) this.giveBack(owner, target, ticket, ttlMs);
          throw error;
        }
        await new Promise<void>((resolve) => void clock.schedule(pauseMs, resolve));
      }
    }
  }

  private async ask(target: Target, ticket: Ticket, to: string, leaseMs: number) {
    const { engine, parts } = this;
    const { clock, link, releaser } = parts;
    const { resource, key } = target;
    const { owner: from } = ticket;
    const checkOpen = (): void => {
      if (from !== to) engine.checkOpen(target);
    };
    for (;;) {
      const sentAt = clock.now();
      checkOpen();
      const sent = replyTo<TransferReply>((listener) => link.transfer({ key, from, to, leaseMs }, listener));
      const reply = await engine.inTime(sent, target, `The request for the detached lock on ${resource}`);
      if (reply.status === 'transferred') {
        checkOpen();
        if (clock.now() < deadlineOf(sentAt, leaseMs)) return { ...reply, sentAt };
        throw new LockUnavailableError(`The reply about the detached lock on ${resource} came too late.`, { resource });
      }
      // An earlier call of this instance may have got the lock, and not have returned it yet.
      const isGivenBack =
        reply.status === 'others' &&
        (await engine.inTime(releaser.giveAgain(from), target, `The return of ${resource} to its ticket`));
      if (!isGivenBack) throw ticketIsOver(resource, reply.status);
    }
  }

  /** Makes a ticket work again. The request for its lock may have run, or may still run. */
  private giveBack(owner: string, { resource, key }: Target, ticket: Ticket, leaseMs: number): void {
    const heir = { owner: ticket.owner, leaseMs: ticket.ttlMs };
    const back = { resource, key, owner, mode: 'exclusive', leaseMs, closedUntil: 0, heir } as const;
    this.parts.releaser.release(back, this.parts.clock.now(), true).catch(() => undefined);
  }

  /** @throws LockConfigError if the store cannot keep locks for tickets. */
  private checkStore(call: string, { resource }: Target): void {
    const refusal = describeUnsupportedTransfer(this.parts.link.store);
    if (refusal !== undefined) throw new LockConfigError(`${call}: ${refusal}.`, { resource });
  }
}
