import { messageOf } from '../common/errors.js';
import { secondsOf } from '../common/format-value.js';
import type { ServerState } from '../events/instance-states.js';
import { isPermanent, refusalOf, RefusalLog, type StoreOperation } from '../contract/refusal-log.js';
import { UnansweredError } from '../contract/store.js';

/** Receives one line when a server goes (`warn`), and one when it is back (`info`). */
export interface StoreLog {
  readonly warn: (message: string) => void;
  readonly info: (message: string) => void;
}

/** A server that was not tried for this time may be gone, in milliseconds. */
const GONE_MS = 600_000;

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
  /** Where the server is. Undefined if that is not known. */
  readonly place: string | undefined;
}

/** Called when a server, or without `server` the whole store, falls silent or replies again. */
export type OnServerChanged = (server: string | undefined, isUp: boolean, error?: Error) => void;

/**
 * Knows which servers of a store are silent, and which refuse requests. Logs one line when a server goes, and one when
 * it is back. Each server has its own lines.
 */
export class StoreHealth {
  /** The servers that have not replied since they fell silent. Undefined stands for the whole store. */
  private readonly silences = new Map<string | undefined, Silence>();
  /** The servers that fell silent, as long as they may come back. */
  private readonly seen = new Set<string>();
  /** When each server that refuses all acquire requests was seen to do so. Undefined stands for the whole store. */
  private readonly refusing = new Map<string | undefined, { readonly since: number; lastAt: number }>();
  private readonly refusals: RefusalLog;

  /**
   * @param now reads the local clock, in milliseconds.
   * @param onChanged called when a server, or without `server` the whole store, falls silent or replies again.
   * @param onSilent called whenever a server is seen to be silent, the first time included.
   * @param place names the whole store in log lines and errors. Default: it has no name.
   */
  constructor(
    private readonly log: StoreLog,
    private readonly now: () => number,
    private readonly serverOf: (key: string) => string | undefined = () => undefined,
    private readonly onChanged: OnServerChanged = () => undefined,
    private readonly onSilent: () => void = () => undefined,
    private readonly place?: string,
  ) {
    this.refusals = new RefusalLog(log.warn, now);
  }

  /** Returns why the key's server cannot be reached. Undefined if it can, as far as is known. */
  outageOf(key: string): Error | undefined {
    if (this.silences.size === 0) return undefined;
    return this.silences.get(this.serverOf(key))?.error ?? this.silences.get(undefined)?.error;
  }

  /** Returns where the key's server is. Undefined if that is not known. */
  placeOf(key: string): string | undefined {
    return this.serverOf(key) ?? this.place;
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
    return { seenForMs: lastAt - unbrokenSince, lastsMs: now - since, why, error, place: this.placeOf(key) };
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
    const until = this.now() - GONE_MS;
    const known = [...this.seen].filter((server) => (this.silences.get(server)?.lastAt ?? Infinity) > until);
    return [undefined, ...known].map((server) => ({ server, isUp: !this.silences.has(server) }));
  }

  /** Records that a server, or without `server` the whole store, cannot be reached. Silence hides no reason. */
  onUnreachable(error: Error, server?: string): void {
    const reason = error instanceof UnansweredError ? this.silences.get(server)?.error : error;
    this.fallSilent(server, error.message, reason);
  }

  /** Records that a request for the key got a reply, of whatever kind. */
  onReply(key: string): void {
    if (this.refusing.size > 0) this.accept(this.serverOf(key));
    if (this.silences.size > 0) this.onReachable(this.serverOf(key));
  }

  /** Records that a server, or without `server` the whole store, replied. */
  onReachable(server?: string): void {
    for (const silent of new Set([server, undefined])) {
      const silence = this.silences.get(silent);
      if (silence === undefined) continue;
      this.silences.delete(silent);
      this.onChanged(silent, true);
      const lasted = secondsOf(this.now() - silence.since);
      this.log.info(`Redis can be reached again${this.at(silent)} after ${lasted}.`);
    }
    // Servers that are gone never reply.
    this.forgetSilences();
  }

  /** Records that a request for the key failed. Logs a server's refusal, and the failure of a store. */
  onFailed(operation: StoreOperation, key: string, error: unknown): void {
    const code = refusalOf(error);
    if (code === undefined) return;
    const server = this.serverOf(key);
    if (operation === 'acquire' && code !== OF_SOME_KEYS && !isPermanent(error)) this.refuse(server);
    const outage = this.outageOf(key);
    // The same reply was already logged as an outage.
    if (outage !== undefined && messageOf(error).includes(outage.message)) return;
    this.refusals.onFailed(operation, key, error, server);
  }

  /** Returns the log line about a refusal that was seen in the last minute. Undefined if there is none. */
  recentRefusal(): string | undefined {
    return this.refusals.recent();
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
    if (this.refusing.size === 0) return;
    this.refusing.delete(server);
    const until = this.now() - GONE_MS;
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
    if (known === undefined) {
      this.onChanged(server, false, error);
      const unavailable = 'locks are unavailable until it replies';
      this.log.warn(`Redis cannot be reached${this.at(server)}, ${unavailable}: ${why}`);
    }
    this.onSilent();
  }

  private at(server: string | undefined): string {
    const place = server ?? this.place;
    return place === undefined ? '' : ` at ${place}`;
  }

  /** Forgets servers that were not tried for a while, because they may be gone. Never forgets the store as a whole. */
  private forgetSilences(): void {
    if (this.silences.size === 0) return;
    const until = this.now() - GONE_MS;
    for (const [server, { lastAt }] of this.silences) {
      if (server === undefined || lastAt > until) continue;
      this.silences.delete(server);
      this.seen.delete(server);
    }
  }
}
