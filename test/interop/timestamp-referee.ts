import { monitor, type MonitoredCommand } from '../support/monitor.js';

/** A command, in the order in which the server ran it. */
interface Command {
  readonly atMs: number;
  readonly name: string;
  readonly args: readonly string[];
  /** The client's address. Undefined inside a script, which only our clients use. */
  readonly client: string | undefined;
}

/** A client that was granted the lock, and the end of its lease by the value that it wrote. */
interface Holder {
  readonly id: string;
  readonly isOurs: boolean;
  readonly until: number;
}

/** What the referee has found. */
export interface Findings {
  /** How many locks our clients and the old ones were granted. */
  readonly grants: { ours: number; old: number };
  /** Our deletions and renewals of a lock that was granted to another client. */
  readonly faults: string[];
  /** How long two clients held the lock at once by their own expiries, in milliseconds, for each time that they did. */
  readonly overlapsMs: number[];
}

/** Watches one key through MONITOR, and finds out from the commands which client was granted the lock. */
export class TimestampReferee {
  private readonly commands: Command[] = [];

  private monitor: { disconnect(): void } | undefined;

  private constructor(private readonly key: string) {}

  static async watch(url: string, key: string): Promise<TimestampReferee> {
    const referee = new TimestampReferee(key);
    const { hostname: host, port, password } = new URL(url);
    referee.monitor = await monitor({ host, port: Number(port), password }, (command) => referee.onCommand(command));
    return referee;
  }

  private onCommand({ at, words: [name, ...args], source }: MonitoredCommand): void {
    if (!args.includes(this.key) && !args.includes(`{${this.key}}||holder`)) return;
    const client = source === 'lua' ? undefined : source;
    this.commands.push({ atMs: at * 1_000, name: name.toLowerCase(), args, client });
  }

  /** Ends the watch. */
  end(): Findings {
    this.monitor?.disconnect();
    const findings: Findings = { grants: { ours: 0, old: 0 }, faults: [], overlapsMs: [] };
    let holder: Holder | undefined;
    const grant = (next: Holder, { atMs }: Command): void => {
      findings.grants[next.isOurs ? 'ours' : 'old'] += 1;
      if (holder !== undefined && holder.until > atMs) findings.overlapsMs.push(holder.until - atMs);
      holder = next;
    };
    for (const [i, command] of this.commands.entries()) {
      const { name, args, client } = command;
      const until = Number(args[1]);
      if (client !== undefined) {
        if (this.isGrant(i)) grant({ id: client, isOurs: false, until }, command);
        continue;
      }
      if (name === 'del') {
        if (holder?.isOurs === false) findings.faults.push(`deleted the lock of ${holder.id}`);
        holder = undefined;
      }
      if (name === 'set' && args[0] === this.key) {
        const id = this.commands[i + 1].args[1];
        const isRenewal = this.commands.slice(0, i).some(({ args: before }) => before[1] === id);
        if (!isRenewal) grant({ id, isOurs: true, until }, command);
        else if (holder?.id !== id) findings.faults.push(`renewed the lock of ${holder?.id}`);
        else holder = { ...holder, until };
      }
    }
    return findings;
  }

  /** Returns whether a command granted the lock. The old clients then give it a TTL, and otherwise read or retry. */
  private isGrant(index: number): boolean {
    const { name, client } = this.commands[index];
    if (name !== 'setnx' && name !== 'getset') return false;
    const next = this.commands.slice(index + 1).find((command) => command.client === client);
    return next?.name === 'pexpire';
  }
}
