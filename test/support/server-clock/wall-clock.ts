import { mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { wallClockLibrary } from './shim.ts';

/** The layout of `struct file` in wall-clock.c. */
const WORD = 8;
const SLOT_WORDS = 3;
/** The modes of wall-clock.c. */
const [TICKING, RUNNING, STOPPED] = [0, 1, 2];

let folder: string | undefined;
let files = 0;

process.once('exit', () => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

/** Returns a path in a folder of this process, which is removed when the process ends, or after the tests. */
function nextPath(): string {
  folder ??= mkdtempSync(join(process.env['TEST_FOLDER'] ?? tmpdir(), 'wall-clocks-'));
  files += 1;
  return join(folder, String(files));
}

/**
 * The wall clock of all processes that are started with its variables. At first it is the machine's. Their monotonic
 * clocks, timers and sleeps stay as they are.
 */
export class WallClock {
  /** The variables for a process: never for this one, whose children would have the clock, too. */
  readonly variables: Readonly<Record<string, string>>;
  private readonly file: number;
  private count = 0;
  private epoch = 0;
  private atUs = 0;

  private constructor(
    library: string,
    private readonly ticks: boolean,
  ) {
    const path = nextPath();
    this.variables = { LD_PRELOAD: library, TEST_WALL_CLOCK: path };
    this.file = openSync(path, 'w');
    writeSync(this.file, Buffer.alloc(WORD * (1 + 2 * SLOT_WORDS)));
    this.runAhead(0);
  }

  /**
   * Needs gcc, see `canSetWallClocks`.
   *
   * @param ticks whether each read of the stopped clock is 1 µs later than the one before. Default: false.
   */
  static async create({ ticks = false } = {}): Promise<WallClock> {
    return new WallClock(await wallClockLibrary(), ticks);
  }

  /** Lets the clock run this far ahead of the machine's clock, or behind it. */
  runAhead(ms: number): void {
    this.write(RUNNING, Math.round(ms * 1_000));
  }

  /**
   * Stops the clock at a time, in µs since 1970, or moves the stopped clock there. A clock that ticks may be there
   * already by its reads: then it stays as it is.
   */
  stopAt(us: number): void {
    if (us < this.atUs) this.epoch += 1;
    this.atUs = us;
    this.write(this.ticks ? TICKING : STOPPED, us);
  }

  private write(...setting: readonly [mode: number, us: number]): void {
    this.count = (this.count + 1) % 256;
    const slot = Buffer.alloc(WORD * SLOT_WORDS);
    for (const [i, value] of [...setting, this.epoch].entries()) slot.writeBigInt64LE(BigInt(value), i * WORD);
    writeSync(this.file, slot, 0, slot.length, WORD * (1 + (this.count & 1) * SLOT_WORDS));
    writeSync(this.file, Buffer.of(this.count), 0, 1, 0);
  }
}

/** Returns the variables of servers whose clocks run that many seconds ahead of the machine's clock. Needs gcc. */
export function clocksAhead(...seconds: readonly number[]): Promise<NodeJS.ProcessEnv[]> {
  const ahead = async (s: number): Promise<NodeJS.ProcessEnv> => {
    const clock = await WallClock.create();
    clock.runAhead(s * 1_000);
    return clock.variables;
  };
  return Promise.all(seconds.map(ahead));
}
