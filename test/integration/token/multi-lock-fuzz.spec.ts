import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { LockError, type LockOptions, type LockService } from 'nestjs-redis-lock';
import { keptBy } from '../../support/inside.js';
import { randomFrom } from '../../support/random.js';
import { StoppedContention } from '../../support/server-clock/stopped-contention.js';

let here: StoppedContention;

beforeAll(async () => {
  here = await StoppedContention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

const RESOURCES = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? `account:${i}` : `order:${i}`));

/** Returns a signal that aborts after a time of the clock. */
function abortedAfter(delayMs: number): AbortSignal {
  const controller = new AbortController();
  here.clock.schedule(delayMs, () => controller.abort(new DOMException('the caller has left', 'TimeoutError')));
  return controller.signal;
}

/** The holders of a resource, as readers or alone. */
class Inside {
  readonly faults: string[] = [];
  private readonly readers = new Map<string, number>();
  private readonly writers = new Map<string, number>();

  async visit(resources: readonly string[], reads: boolean, work: () => Promise<unknown>): Promise<void> {
    const mine = reads ? this.readers : this.writers;
    const change = (by: number): void =>
      resources.forEach((resource) => mine.set(resource, (mine.get(resource) ?? 0) + by));
    change(1);
    for (const resource of resources) {
      const [reading = 0, writing = 0] = [this.readers.get(resource), this.writers.get(resource)];
      if (writing > 1 || (writing > 0 && reading > 0)) this.faults.push(`${resource}: ${reading} beside ${writing}`);
    }
    await work();
    change(-1);
  }
}

it.each([
  { seed: 1, tasks: 45, resets: false },
  { seed: 2, tasks: 45, resets: false },
  { seed: 3, tasks: 15, resets: true },
])(
  'one or several, alone or shared, waited for or not, left or not: $seed',
  async ({ seed, tasks, resets }) => {
    const random = randomFrom(seed);
    const oneOf = <T>(...all: readonly T[]): T => all[Math.floor(random() * all.length)];
    const { proxy } = await here.way();
    const requestTimeoutMs = resets ? 1_000 : 10_000;
    const instances = [{}, { redis: proxy.url }, { fairness: 'strict' as const }].map((options) =>
      here.instance({ requestTimeoutMs, ...options }),
    );
    // An instance without a connection may be refused for that.
    for (const locks of instances) await locks.using('account:9', () => undefined);
    const timer = resets ? setInterval(() => proxy.reset(), 100) : undefined;
    const inside = new Inside();
    const outcomes = new Set<string>();
    const visit = async (locks: LockService): Promise<void> => {
      const some = RESOURCES.filter(() => random() < 0.3).toSorted(() => random() - 0.5);
      const several = some.length > 0 ? some : RESOURCES.slice(0, 1);
      const reads = random() < 0.4;
      const signal = oneOf(undefined, undefined, abortedAfter(Math.ceil(random() * 60)));
      const options: LockOptions = {
        ...(reads && { mode: 'shared' }),
        ...(signal && { signal }),
        waitMs: oneOf(0, 5, 50, 500, 20_000),
        minHoldMs: oneOf(0, 0, 20),
      };
      const work = (resources: readonly string[]) => () => inside.visit(resources, reads, () => here.admin.ping());
      const going =
        random() < 0.3
          ? locks.using(several[0], options, work(several.slice(0, 1)))
          : locks.using(several, options, work(several));
      const outcome = await going.then(
        () => 'done',
        (error: Error) => (error instanceof LockError ? error.code : error.name),
      );
      outcomes.add(outcome);
    };
    const task = async (i: number): Promise<void> => {
      for (let turn = 0; turn < 10; turn++) await visit(instances[i % 3]);
    };
    await here.clock.until(Promise.all(Array.from({ length: tasks }, (_, i) => task(i))));
    clearInterval(timer);
    expect(inside.faults).toEqual([]);
    if (resets) outcomes.delete('LOCK_UNAVAILABLE');
    expect([...outcomes].toSorted()).toEqual(['LOCK_TIMEOUT', 'TimeoutError', 'done']);
    await here.clock.advanceUntil('nothing is left', async () => (await here.leftovers()).length === 0);
    await here.clock.advanceUntil('no instance keeps state', () => instances.every((one) => keptBy(one) === 0));
  },
  60_000,
);
