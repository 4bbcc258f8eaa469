import { lockChannels, type LockEvent } from 'nestjs-redis-lock/events';
import { deferred } from '../../support/async.js';

type EventName = keyof typeof lockChannels;

interface Expectation {
  isMet(): boolean;
  meet(): void;
}

const NAMES = Object.keys(lockChannels) as EventName[];

/** Records the events of all locks with one prefix in order: `granted goods:300`. Tests can add lines. */
export class LockLog {
  readonly lines: string[] = [];
  private readonly expectations = new Set<Expectation>();
  private readonly stops: (() => void)[];

  constructor(prefix: string) {
    this.stops = NAMES.map((name) => {
      const listener = (message: unknown): void => {
        const { key, resource } = message as LockEvent;
        if (key.includes(prefix)) this.add(`${name} ${resource}`);
      };
      lockChannels[name].subscribe(listener);
      return () => void lockChannels[name].unsubscribe(listener);
    });
  }

  add(line: string): void {
    this.lines.push(line);
    for (const expectation of this.expectations) if (expectation.isMet()) expectation.meet();
  }

  /** Returns the number of lines that start with the text or match the pattern. */
  count(line: string | RegExp): number {
    const fits = (each: string): boolean => (typeof line === 'string' ? each.startsWith(line) : line.test(each));
    return this.lines.filter(fits).length;
  }

  /** Waits until there are `count` such lines. */
  until(line: string | RegExp, count = 1): Promise<void> {
    const met = deferred();
    const expectation: Expectation = { isMet: () => this.count(line) >= count, meet: () => met.resolve() };
    if (expectation.isMet()) return Promise.resolve();
    this.expectations.add(expectation);
    return met.promise.finally(() => this.expectations.delete(expectation));
  }

  close(): void {
    for (const stop of this.stops) stop();
  }
}
