import { type Lock, LockError, type LockService, type MultiLock } from 'nestjs-redis-lock';
import { randomFrom } from './random.js';

/** Records overlapping holds of a resource, and tokens that do not rise. */
class Doors {
  readonly faults: string[] = [];
  private readonly inside = new Set<string>();
  private readonly tokens = new Map<string, number>();

  async pass(locks: readonly Lock[], work: () => Promise<void>): Promise<void> {
    for (const { resource, fencingToken } of locks) {
      if (this.inside.has(resource)) this.faults.push(`two are inside of ${resource}`);
      if (fencingToken <= (this.tokens.get(resource) ?? 0)) this.faults.push(`the token of ${resource} did not rise`);
      this.inside.add(resource);
      this.tokens.set(resource, fencingToken);
    }
    await work();
    for (const { resource } of locks) this.inside.delete(resource);
  }
}

export interface CrossingResult {
  /** The violations found so far. */
  readonly faults: readonly string[];
  /** Counts nested requests that were granted, and those that were refused by reason. */
  readonly nested: number;
  readonly refusals: readonly string[];
}

/**
 * Lets many tasks lock some of few resources in random order. Every third task requests more inside its hold. Two such
 * tasks may wait for each other until the inner `waitMs` ends. A request for all resources at once never fails.
 */
export async function crossTasks(
  instances: readonly LockService[],
  resources: readonly string[],
  pause: () => Promise<unknown>,
  { tasks = 50, turns = 3 } = {},
): Promise<CrossingResult> {
  const doors = new Doors();
  const random = randomFrom(6);
  let nested = 0;
  const refusals: string[] = [];
  const some = (): readonly string[] => {
    const shuffled = resources.map((resource) => ({ resource, place: random() }));
    shuffled.sort((a, b) => a.place - b.place);
    return shuffled.slice(0, 1 + Math.floor(random() * 4)).map(({ resource }) => resource);
  };
  const askForMore = async (locks: LockService, outer: MultiLock): Promise<void> => {
    const more = some();
    try {
      await locks.using([outer.resources[0], ...more], { waitMs: 100 }, async (inner) => {
        nested += 1;
        const added = more.filter((resource) => !outer.resources.includes(resource));
        await doors.pass(
          added.map((resource) => inner.of(resource)),
          async () => void (await pause()),
        );
      });
    } catch (error) {
      if (!(error instanceof LockError)) throw error;
      refusals.push(error.code);
    }
  };
  const task = async (i: number): Promise<void> => {
    const locks = instances[i % instances.length];
    for (let turn = 0; turn < turns; turn++) {
      await locks.using(some(), { waitMs: 60_000 }, (outer) =>
        doors.pass(outer.locks, async () => {
          await pause();
          if (i % 3 === 0) await askForMore(locks, outer);
        }),
      );
    }
  };
  await Promise.all(Array.from({ length: tasks }, (_, i) => task(i)));
  return { faults: doors.faults, nested, refusals };
}
