/** Receives one line about an incident (`warn`), or about its end (`info`). */
export interface StoreLog {
  warn(message: string): void;
  info(message: string): void;
}

/** An incident that was logged. */
export interface Incident<T> {
  /** The details when it was last seen. */
  readonly details: T;
  /** How often it was seen. */
  readonly count: number;
  /** When it was first and last seen, on the local clock. */
  readonly since: number;
  readonly lastAt: number;
}

interface Entry<T> extends Incident<T> {
  details: T;
  count: number;
  lastAt: number;
  /** When it ended. Undefined while it continues. */
  endedAt: number | undefined;
  /** How long it must not be seen before it counts as ended. */
  readonly quietMs: number;
}

/**
 * An incident that begins again within this time after its end is a relapse, in milliseconds. An incident that was not
 * seen for this time does not continue.
 */
export const RELAPSE_MS = 600_000;

/** How long a relapse must not be seen before it has ended, in milliseconds: the first, and the longest. */
const FIRST_QUIET_MS = 10_000;
const LONGEST_QUIET_MS = 300_000;

/** From this number on, each new incident removes those that ended or were last seen long ago. */
const MANY = 100;

/**
 * Logs one line when an incident begins and one when it has ended, however often it is seen in between.
 *
 * An incident that comes and goes would fill the log. So the end of a relapse is logged only after a time in which it
 * was not seen: 10 s, and twice as long for each further relapse, up to 5 min. Until then, the log says so.
 *
 * The end of an incident may never be seen, for example if the server is gone. So an incident that was not seen for
 * 10 min is logged again when it is seen.
 */
export class IncidentLog<T> {
  private readonly entries = new Map<string, Entry<T>>();
  private activeCount = 0;

  /** @param now reads the local clock, in milliseconds. */
  constructor(
    private readonly log: StoreLog,
    private readonly now: () => number,
  ) {}

  /** Whether an incident continues, as far as is known. */
  get isActive(): boolean {
    return this.activeCount > 0;
  }

  /** Returns an incident that continues, and was seen in the last 10 min. */
  get(name: string): Incident<T> | undefined {
    const entry = this.entries.get(name);
    if (entry === undefined || entry.endedAt !== undefined) return undefined;
    return this.now() - entry.lastAt < RELAPSE_MS ? entry : undefined;
  }

  /** Returns the incidents whose end is not known yet, by name. */
  active(): readonly (readonly [name: string, incident: Incident<T>])[] {
    if (this.activeCount === 0) return [];
    return [...this.entries].filter(([, { endedAt }]) => endedAt === undefined);
  }

  /** Records that an incident was seen. Logs the message unless it was active and seen in the last 10 min. */
  begin(name: string, details: T, message: string): void {
    const now = this.now();
    const known = this.entries.get(name);
    if (known !== undefined && known.endedAt === undefined) {
      const wasForgotten = now - known.lastAt >= RELAPSE_MS;
      known.details = details;
      known.count += 1;
      known.lastAt = now;
      if (wasForgotten) this.log.warn(message);
      return;
    }
    if (this.entries.size >= MANY) this.forgetOld();
    const isRelapse = known?.endedAt !== undefined && now - known.endedAt < RELAPSE_MS;
    const quietMs = isRelapse ? Math.min(LONGEST_QUIET_MS, Math.max(FIRST_QUIET_MS, known.quietMs * 2)) : 0;
    this.entries.set(name, { details, count: 1, since: now, lastAt: now, endedAt: undefined, quietMs });
    this.activeCount += 1;
    // After the record, because this runs the user's logger.
    this.log.warn(message);
  }

  /**
   * Records that an incident seems to have ended. Logs the message if it continues. Does nothing if it was seen too
   * recently.
   *
   * @param minQuietMs how long it must not have been seen, in milliseconds.
   */
  end(name: string, messageOf: (incident: Incident<T>) => string, minQuietMs = 0): void {
    const now = this.now();
    const entry = this.entries.get(name);
    if (entry === undefined || entry.endedAt !== undefined) return;
    if (now - entry.lastAt < Math.max(entry.quietMs, minQuietMs)) return;
    entry.endedAt = now;
    this.activeCount -= 1;
    this.log.info(messageOf(entry));
  }

  /** Forgets the incidents that ended or were last seen 10 min ago or earlier. Their end is not logged. */
  forgetOld(): void {
    const now = this.now();
    for (const [name, { endedAt, lastAt }] of this.entries) {
      if (now - (endedAt ?? lastAt) < RELAPSE_MS) continue;
      this.entries.delete(name);
      if (endedAt === undefined) this.activeCount -= 1;
    }
  }
}

/** Returns a time as `4.2 s`, or as `250 ms` if it is shorter than a second. */
export function secondsOf(ms: number): string {
  return ms < 1_000 ? `${Math.max(0, Math.round(ms))} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
