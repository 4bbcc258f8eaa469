import { LockUnavailableError } from '../errors.js';
import { IncidentLog, secondsOf, type StoreLog } from './incident-log.js';

/** What a request to a store does. */
export type StoreOperation = 'acquire' | 'release' | 'extend';

/** A kind of refusal by one server, and the request that was refused last. */
interface Refusal {
  readonly server: string | undefined;
  readonly code: string;
  /** A server may refuse one command and not another. */
  readonly operation: StoreOperation;
  readonly key: string;
  /** Whether it may concern some keys and not others. */
  readonly permanent: boolean;
}

/** The name of the incident that concerns the whole store. */
const WHOLE = '';

/**
 * How long no key of a server may be refused before a grant of another key ends the refusal, in milliseconds. Missing
 * permissions may concern some keys only.
 */
const OTHER_KEY_QUIET_MS = 10_000;

/** In place of the server's error code, if the store failed by itself. */
const STORE_FAILED = 'the store failed';

/**
 * Knows which servers of a store are silent, and which refuse requests. Logs one line for each outage and each kind of
 * refusal, and one when it has ended. Where keys are on several servers, each has its own.
 */
export class StoreHealth {
  /** The servers that have not replied since they fell silent, and why. Undefined stands for the whole store. */
  private readonly silences = new Map<string | undefined, Error | undefined>();
  private readonly outages: IncidentLog<string | undefined>;
  private readonly refusals: IncidentLog<Refusal>;

  /** @param now reads the local clock, in milliseconds. */
  constructor(
    log: StoreLog,
    private readonly now: () => number,
    private readonly serverOf: (key: string) => string | undefined = () => undefined,
  ) {
    this.outages = new IncidentLog(log, now);
    this.refusals = new IncidentLog(log, now);
  }

  /** Returns why the key's server cannot be reached. Undefined if it can, as far as is known. */
  outageOf(key: string): Error | undefined {
    if (this.silences.size === 0) return undefined;
    return this.silences.get(this.serverOf(key)) ?? this.silences.get(undefined);
  }

  /** Records that a server, or without `server` the whole store, cannot be reached. */
  onUnreachable(error: Error, server?: string): void {
    this.fallSilent(server, error.message, error);
  }

  /** Records that a request for the key got no reply in time. */
  silent(key: string, why: string): void {
    const server = this.serverOf(key);
    this.fallSilent(server, why, this.silences.get(server));
  }

  /** Records that a request for the key got a reply, of whatever kind. */
  answered(key: string): void {
    if (this.silences.size > 0 || this.outages.isActive) this.onReachable(this.serverOf(key));
  }

  /** Records that a server, or without `server` the whole store, has replied. */
  onReachable(server?: string): void {
    if (this.silences.size === 0 && !this.outages.isActive) return;
    this.silences.delete(server);
    this.silences.delete(undefined);
    for (const name of new Set([server ?? WHOLE, WHOLE])) {
      this.outages.end(name, ({ since, details }) => {
        const after = `Redis can be reached again after ${secondsOf(this.now() - since)}`;
        return details === undefined ? `${after}.` : `${after}: ${details}`;
      });
    }
  }

  /** Records that a request for the key has failed. Logs it if a server has refused it, or if the store failed. */
  onFailed(operation: StoreOperation, key: string, error: unknown): void {
    const isKnown = error instanceof LockUnavailableError;
    const code = isKnown ? error.refusal : STORE_FAILED;
    if (code === undefined) return;
    const { message } = error as Error;
    const outage = this.outageOf(key);
    // An outage was logged with the same reply.
    if (outage !== undefined && message.includes(outage.message)) return;
    const server = this.serverOf(key);
    const permanent = isKnown && error.permanent;
    // Another key may be accepted.
    const first = permanent ? `, first for ${key}` : '';
    const where = server === undefined || message.includes(` to ${server}: `) ? '' : `${server}: `;
    const line = `Redis refuses requests to ${operation} locks${first}: ${where}${message}`;
    this.refusals.begin(`${code} ${server ?? WHOLE}`, { server, code, operation, key, permanent }, line);
  }

  /** Records that a server has granted, released or extended the key. */
  onServed(operation: StoreOperation, key: string): void {
    if (!this.refusals.isActive) return;
    const server = this.serverOf(key);
    for (const [name, { details }] of this.refusals.active()) {
      const isElsewhere = details.server !== server && details.server !== undefined && details.key !== key;
      if (details.operation !== operation || isElsewhere) continue;
      const quietMs = details.permanent && details.key !== key ? OTHER_KEY_QUIET_MS : 0;
      this.refusals.end(
        name,
        ({ since, count }) => {
          const where = details.server === undefined ? '' : ` on ${details.server}`;
          const after = `${where} after ${secondsOf(this.now() - since)}`;
          const times = `${count} ${count === 1 ? 'request was' : 'requests were'} refused (${details.code})`;
          return `Redis accepts requests to ${operation} locks again${after}: ${times}.`;
        },
        quietMs,
      );
    }
  }

  private fallSilent(server: string | undefined, why: string, error: Error | undefined): void {
    // Before the warning, which runs the user's logger.
    this.silences.set(server, error);
    if (server !== undefined && this.outages.has(WHOLE)) return;
    const what = server === undefined ? why : `${server}: ${why}`;
    const line = `Redis cannot be reached, locks are unavailable until it replies: ${what}`;
    this.outages.begin(server ?? WHOLE, server, line);
  }
}
