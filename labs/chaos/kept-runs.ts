import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { RunOrder, RunResult } from '../../test/support/chaos/run.js';

/** A result without its order, whose functions cannot be written to a file. */
interface KeptRun extends Omit<RunResult, 'order'> {
  readonly name: string;
  readonly commit: string;
}

/**
 * The file with the results of a campaign. A campaign that was interrupted, or failed by a run, continues from it.
 * Runs that broke a promise are not kept. Controls are.
 */
export class KeptRuns {
  private readonly kept = new Map<string, KeptRun>();

  constructor(
    private readonly file: string,
    private readonly commit: string,
  ) {}

  /** The commits of all results, in the order in which they ran. */
  get commits(): readonly string[] {
    return [...new Set([...this.kept.values()].map(({ commit }) => commit))];
  }

  /** Removes what an earlier campaign kept. */
  clear(): void {
    rmSync(this.file, { force: true });
  }

  /** Reads what an earlier campaign kept. Returns how many results there are. */
  resume(): number {
    if (!existsSync(this.file)) return 0;
    for (const line of readFileSync(this.file, 'utf8').trim().split('\n')) {
      const run = deserialize(Buffer.from(line, 'base64')) as KeptRun;
      this.kept.set(run.name, run);
    }
    return this.kept.size;
  }

  /** Returns the kept result of the order. Without one, runs the order and keeps its result. */
  async run(order: RunOrder, runOne: (order: RunOrder) => Promise<RunResult>): Promise<RunResult> {
    const name = nameOf(order);
    const kept = this.kept.get(name);
    if (kept !== undefined) return { order, ...kept };
    const { findings, breaches, version } = await runOne(order);
    if (order.control || breaches.size === 0) this.keep({ name, commit: this.commit, findings, breaches, version });
    return { order, findings, breaches, version };
  }

  private keep(run: KeptRun): void {
    this.kept.set(run.name, run);
    mkdirSync(dirname(this.file), { recursive: true });
    // Serialized by V8: JSON has no maps, no undefined and no infinity.
    appendFileSync(this.file, `${serialize(run).toString('base64')}\n`);
  }
}

function nameOf({ fault, store, seed, control }: RunOrder): string {
  return JSON.stringify([fault.name, store, seed, control]);
}
