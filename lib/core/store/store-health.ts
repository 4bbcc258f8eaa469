import { LockUnavailableError, messageOf } from '../errors.js';
import { IncidentLog, RELAPSE_MS, secondsOf, type Incident, type StoreLog } from './incident-log.js';

/** What a request to a store does. */
export type StoreOperation = 'acquire' | 'release' | 'extend';

/** A kind of refusal by one server, and the key that was last refused. */
interface Refusal {
  readonly server: string | undefined;
  readonly code: string;
  /**
   * When each operation was last refused, on the local clock, or ACCEPTED if it has been accepted since. A server may
   * refuse one command and not another.
   */
  readonly refusedAt: Map<StoreOperation, number>;
  readonly key: string;
  /** Whether it may concern some keys and not others. */
  readonly permanent: boolean;
  /** What the log says. */
  readonly line: string;
}

/** The name of the incident that concerns the whole store. */
const WHOLE = '';

/** In place of the time of a refusal. */
const ACCEPTED = -Infinity;

/**
 * How long a server must refuse no key before a grant of another key ends the refusal, in milliseconds. Missing
 * permissions may concern only some keys.
 */
const OTHER_KEY_QUIET_MS = 10_000;

/**
 * How long an operation must go without a refusal before the success of another operation ends the refusal, in
 * milliseconds. The refused operation may never be requested again.
 */
const OTHER_OPERATION_QUIET_MS = 10_000;

/** How long a refusal counts after it was seen, in milliseconds. Its end is not seen if nobody requests a lock. */
const RECENT_MS = 60_000;

/** Why a server is silent, and when that was first and last seen, on the local clock. */
interface Silence {
  readonly error: Error | undefined;
  readonly why: string;
  readonly since: number;
  readonly lastAt: number;
  /** When the latest series of observations began. A long pause ends a series. */
  readonly unbrokenSince: number;
  /** When a request was last sent to find out whether the silence continues. */
  retriedAt: number;
}

/**
 * How long a silence is assumed to continue after it was last seen, in milliseconds. After that, one request is sent to
 * check. A store need not report that a server can be reached again, and without requests the recovery is not seen.
 */
const TRUSTED_MS = 1_000;

/** A server that fails again after this time without a seen failure, in milliseconds, may have worked in between. */
const BROKEN_OFF_MS = 10_000;

/**
 * The refusals that concern some keys and not others. A cluster moves slots one key at a time, and the caller waits for
 * its key.
 */
const OF_SOME_KEYS = 'TRYAGAIN';

/** An outage of a key's server. */
export interface Outage {
  /**
   * How long it had lasted without a break when it was last seen, in milliseconds. The server may have worked since
   * then, or before.
   */
  readonly seenForMs: number;
  /** How long it has lasted, in milliseconds. */
  readonly lastsMs: number;
  readonly why: string;
  readonly error: Error | undefined;
}

/** Called when a server, or without `server` the whole store, falls silent or replies again. */
export type OnServerChanged = (server: string | undefined, isUp: boolean, error?: Error) => void;

/** A server of a store, as its replies show it. */
export interface ServerState {
  /** Undefined stands for the whole store. */
  readonly server: string | undefined;
  readonly isUp: boolean;
}

/** In place of the server's error code, if the store failed by itself. */
const STORE_FAILED = 'the store failed';

/**
 * Knows which servers of a store are silent, and which refuse requests. Logs one line for each outage and each kind of
 * refusal, and one when it has ended. If keys are on several servers, each server has its own lines.
 */
export class StoreHealth {
  /** The servers that have not replied since they fell silent. Undefined stands for the whole store. */
  private readonly silences = new Map<string | undefined, Silence>();
  /** The servers that fell silent, as long as they may come back. */
  private readonly seen = new Set<string>();
  /** When each server that refuses all acquire requests was seen to do so. Undefined stands for the whole store. */
  private readonly refusing = new Map<string | undefined, { readonly since: number; lastAt: number }>();
  private readonly outages: IncidentLog<string | undefined>;
  private readonly refusals: IncidentLog<Refusal>;

  /**
   * @param now reads the local clock, in milliseconds.
   * @param onChanged called when a server, or without `server` the whole store, falls silent or replies again.
   * @param onSilent called whenever a server is seen to be silent, the first time included.
   */
  constructor(
    log: StoreLog,
    private readonly now: () => number,
    private readonly serverOf: (key: string) => string | undefined = () => undefined,
    private readonly onChanged: OnServerChanged = () => undefined,
    private readonly onSilent: () => void = () => undefined,
  ) {
    this.outages = new IncidentLog(log, now);
    this.refusals = new IncidentLog(log, now);
  }

  /** Returns why the key's server cannot be reached. Undefined if it can, as far as is known. */
  outageOf(key: string): Error | undefined {
    if (this.silences.size === 0) return undefined;
    return this.silences.get(this.serverOf(key))?.error ?? this.silences.get(undefined)?.error;
  }

  /** Whether a server is silent, as far as is known. */
  get isAnySilent(): boolean {
    return this.silences.size > 0;
  }

  /**
   * Returns the outage of the key's server. Undefined if there is none, or if it was not seen for a second. A request
   * then has to find out whether it continues.
   */
  outage(key: string): Outage | undefined {
    const silence = this.silenceOf(key);
    // A server that sent an error can be reached. Each request finds out what the server refuses, such as a password.
    if (silence === undefined || silence.error?.name === 'ReplyError') return undefined;
    const now = this.now();
    const { since, lastAt, unbrokenSince, retriedAt, why, error } = silence;
    if (now - Math.max(lastAt, retriedAt) >= TRUSTED_MS) return undefined;
    return { seenForMs: lastAt - unbrokenSince, lastsMs: now - since, why, error };
  }

  /** Records that a request is sent although the key's server is silent, to find out whether it still is. */
  onRetry(key: string): void {
    const silence = this.silenceOf(key);
    if (silence !== undefined) silence.retriedAt = this.now();
  }

  /** Returns how long the key's server has refused every acquire request, in milliseconds. 0 if it does not. */
  refusesForMs(key: string): number {
    const known = this.refusing.size === 0 ? undefined : this.refusing.get(this.serverOf(key));
    return known === undefined ? 0 : known.lastAt - known.since;
  }

  /**
   * Returns the whole store first, and then the servers that have fallen silent since the start. A server that is
   * silent and was not tried for a while may be gone, and is left out.
   */
  servers(): readonly ServerState[] {
    const until = this.now() - RELAPSE_MS;
    const known = [...this.seen].filter((server) => (this.silences.get(server)?.lastAt ?? Infinity) > until);
    return [undefined, ...known].map((server) => ({ server, isUp: !this.silences.has(server) }));
  }

  /** Records that a server, or without `server` the whole store, cannot be reached. */
  onUnreachable(error: Error, server?: string): void {
    this.fallSilent(server, error.message, error);
  }

  /** Records that a request for the key got no reply in time. */
  onNoReply(key: string, why: string): void {
    const server = this.serverOf(key);
    this.fallSilent(server, why, this.silences.get(server)?.error);
  }

  /** Records that a request for the key got a reply, of whatever kind. */
  onReply(key: string): void {
    if (this.refusing.size > 0) this.accept(this.serverOf(key));
    if (this.silences.size > 0 || this.outages.isActive) this.onReachable(this.serverOf(key));
  }

  /** Records that a server, or without `server` the whole store, replied. */
  onReachable(server?: string): void {
    if (this.silences.size === 0 && !this.outages.isActive) return;
    for (const silent of new Set([server, undefined])) if (this.silences.delete(silent)) this.onChanged(silent, true);
    for (const name of new Set([server ?? WHOLE, WHOLE])) {
      this.outages.end(name, ({ since, details }) => {
        const after = `Redis can be reached again after ${secondsOf(this.now() - since)}`;
        return details === undefined ? `${after}.` : `${after}: ${details}`;
      });
    }
    // Servers that are gone never reply.
    this.forgetSilences();
    this.outages.forgetOld();
  }

  /** Records that a request for the key failed. Logs the failure of a store, or a server's refusal. */
  onFailed(operation: StoreOperation, key: string, error: unknown): void {
    const isKnown = error instanceof LockUnavailableError;
    const code = isKnown ? error.refusal : STORE_FAILED;
    if (code === undefined) return;
    const concernsAll = code !== OF_SOME_KEYS && !(isKnown && error.permanent);
    if (operation === 'acquire' && concernsAll) this.refuse(this.serverOf(key));
    const message = messageOf(error);
    const outage = this.outageOf(key);
    // The same reply was already logged as an outage.
    if (outage !== undefined && message.includes(outage.message)) return;
    const server = this.serverOf(key);
    const permanent = isKnown && error.permanent;
    // Another key may be accepted.
    const first = permanent ? `, first for ${key}` : '';
    const where = server === undefined || message.includes(` to ${server}: `) ? '' : `${server}: `;
    const line = `Redis refuses requests to ${operation} locks${first}: ${where}${message}`;
    const name = `${code} ${server ?? WHOLE}`;
    const refusedAt = this.refusals.get(name)?.details.refusedAt ?? new Map<StoreOperation, number>();
    refusedAt.set(operation, this.now());
    this.refusals.begin(name, { server, code, refusedAt, key, permanent, line }, line);
  }

  /** Returns the log line about a refusal that continues, or undefined if no refusal was seen in the last minute. */
  recentRefusal(): string | undefined {
    const since = this.now() - RECENT_MS;
    return this.refusals.active().find(([, { lastAt }]) => lastAt > since)?.[1].details.line;
  }

  /** Records that a server has granted, released or extended the key. */
  onServed(operation: StoreOperation, key: string): void {
    if (!this.refusals.isActive) return;
    const server = this.serverOf(key);
    for (const [name, { details }] of this.refusals.active()) {
      const isElsewhere = details.server !== server && details.server !== undefined && details.key !== key;
      if (!details.refusedAt.has(operation) || isElsewhere) continue;
      const quietMs = details.permanent && details.key !== key ? OTHER_KEY_QUIET_MS : 0;
      if (quietMs === 0) details.refusedAt.set(operation, ACCEPTED);
      if (this.isOtherRefused(details, operation)) continue;
      this.refusals.end(name, (incident) => this.acceptedAgain(incident, operation), quietMs);
    }
    // Servers that are gone never accept a request.
    this.refusals.forgetOld();
  }

  /** Returns true if another operation was refused recently and has not been accepted since. */
  private isOtherRefused({ refusedAt }: Refusal, operation: StoreOperation): boolean {
    const until = this.now() - OTHER_OPERATION_QUIET_MS;
    for (const [other, at] of refusedAt) if (other !== operation && at > until) return true;
    return false;
  }

  private acceptedAgain({ details, since, count }: Incident<Refusal>, operation: StoreOperation): string {
    const { server, code, refusedAt } = details;
    const accepted = [...refusedAt.keys()].filter((other) => other === operation || refusedAt.get(other) === ACCEPTED);
    const where = server === undefined ? '' : ` on ${server}`;
    const after = `${where} after ${secondsOf(this.now() - since)}`;
    const times = `${count} ${count === 1 ? 'request was' : 'requests were'} refused (${code})`;
    return `Redis accepts requests to ${accepted.join(' and ')} locks again${after}: ${times}.`;
  }

  private silenceOf(key: string): Silence | undefined {
    return this.silences.get(this.serverOf(key)) ?? this.silences.get(undefined);
  }

  private refuse(server: string | undefined): void {
    const now = this.now();
    const known = this.refusing.get(server);
    if (known !== undefined && now - known.lastAt < BROKEN_OFF_MS) known.lastAt = now;
    else this.refusing.set(server, { since: now, lastAt: now });
  }

  private accept(server: string | undefined): void {
    this.refusing.delete(server);
    const until = this.now() - RELAPSE_MS;
    // Servers that are gone never accept a request.
    for (const [name, { lastAt }] of this.refusing) if (lastAt <= until) this.refusing.delete(name);
  }

  private fallSilent(server: string | undefined, why: string, error: Error | undefined): void {
    const known = this.silences.get(server);
    const lastAt = this.now();
    // Before the warning, which runs the user's logger.
    const { since = lastAt, unbrokenSince: before = since } = known ?? {};
    const unbrokenSince = lastAt - (known?.lastAt ?? lastAt) < BROKEN_OFF_MS ? before : lastAt;
    this.silences.set(server, { error, why, since, lastAt, unbrokenSince, retriedAt: lastAt });
    if (server !== undefined) this.seen.add(server);
    this.forgetSilences();
    if (known === undefined) this.onChanged(server, false, error);
    this.onSilent();
    if (server !== undefined && this.outages.get(WHOLE) !== undefined) return;
    const what = server === undefined ? why : `${server}: ${why}`;
    const line = `Redis cannot be reached, locks are unavailable until it replies: ${what}`;
    this.outages.begin(server ?? WHOLE, server, line);
  }

  /** Forgets servers that were not tried for a while, because they may be gone. Never forgets the store as a whole. */
  private forgetSilences(): void {
    const until = this.now() - RELAPSE_MS;
    for (const [server, { lastAt }] of this.silences) {
      if (server === undefined || lastAt > until) continue;
      this.silences.delete(server);
      this.seen.delete(server);
    }
  }
}
