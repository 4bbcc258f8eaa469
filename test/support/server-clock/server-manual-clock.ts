import { ManualClock } from 'nestjs-redis-lock/testing';
import { eventually } from '../async.ts';

/** The servers whose clock a manual clock moves along. */
export interface ClockedServers {
  /** Sets the wall clock of all servers, in milliseconds since 1970. */
  setWallTime(ms: number): void;
  /** Returns how many commands the servers have run, without those of this function. */
  commandsRun(): Promise<number>;
}

/** How many turns of the event loop this process has for its own work between two looks at the servers. */
const TURNS = 4;
/** How many times in a row the servers must have had no further command. */
const QUIET_LOOKS = 2;
/** No test waits longer, on its own clock. */
const LONGEST_MS = 600_000;

/**
 * A manual clock that the clock of servers follows. It stands still as long as a command or a reply is on its way, so
 * that no request lasts any time, however long the machine takes for it.
 */
export class ServerManualClock extends ManualClock {
  constructor(
    private readonly servers: ClockedServers,
    wallTime: number,
  ) {
    super(wallTime);
  }

  /** Sets the wall clocks of this process and of the servers. */
  override setWallTime(wallTime: number): void {
    super.setWallTime(wallTime);
    this.servers.setWallTime(wallTime);
  }

  /** Advances the time, from timer to timer, until the promise settles. Returns its result. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settle = (): void => void (isSettled = true);
    promise.then(settle, settle);
    await this.advanceUntil('the promise settles', () => isSettled);
    return promise;
  }

  /** Advances the time, from timer to timer, until the condition holds. Returns by how many milliseconds. */
  async advanceUntil(what: string, holds: () => boolean | Promise<boolean>, withinMs = LONGEST_MS): Promise<number> {
    const from = this.now();
    for (;;) {
      await this.settled();
      if (await holds()) return this.now() - from;
      const next = this.nextUntil(from + withinMs);
      if (next === undefined) break;
      await this.advance(Math.max(0, next.at - this.now()));
    }
    // What is left does not depend on this clock, such as a connection of a client.
    await eventually(`${what}, ${withinMs} ms later`, holds);
    return this.now() - from;
  }

  protected override moveTo(time: number): void {
    super.moveTo(time);
    this.servers.setWallTime(this.wallTime());
  }

  /**
   * Waits until nothing is on its way. What this process has sent before a look at a server has run by then, and the
   * replies to it are read by the next look. If they made the process send more, the number of commands has risen.
   */
  protected override async settled(): Promise<void> {
    let run = -1;
    for (let quiet = 0; quiet < QUIET_LOOKS;) {
      for (let turn = 0; turn < TURNS; turn += 1) await super.settled();
      const now = await this.servers.commandsRun();
      quiet = now === run ? quiet + 1 : 0;
      run = now;
    }
  }
}
