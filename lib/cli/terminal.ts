/** The part of a stream that the command line writes to. */
export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  /** Returns false if the stream is full. It emits `drain` when it can take more. */
  write(text: string): unknown;
  once?(event: 'drain', listener: () => void): unknown;
}

/** Where the command line reads and writes. */
export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Whether a question can be asked. */
  readonly isInteractive: boolean;
  /** Prints a question on stderr. Returns the reply, or undefined if the input ends or the user presses Ctrl-C. */
  ask(question: string): Promise<string | undefined>;
  /**
   * Calls the listener when the user presses Ctrl-C, or when the process is asked to exit. Returns a function that
   * removes the listener.
   */
  onInterrupt(listener: (signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') => void): () => void;
  /**
   * Calls `leave` before Ctrl-Z suspends the process, and `enter` when it resumes. Returns a function that removes
   * both.
   */
  onSuspend(leave: () => void, enter: () => void): () => void;
  /** Calls the listener when the process ends, except by SIGKILL. Returns a function that removes the listener. */
  onExit(listener: () => void): () => void;
}

const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** Returns the columns of a terminal. Undefined for a file or a pipe. */
export function columnsOf({ isTTY, columns }: Output): number | undefined {
  return isTTY === true ? columns || DEFAULT_COLUMNS : undefined;
}

/** Writes text. Resolves when the stream can take more: a reader may be slower than a listing. */
export async function writeTo(output: Output, text: string): Promise<void> {
  if (output.write(text) !== false) return;
  await new Promise<void>((resolve) => (output.once === undefined ? resolve() : output.once('drain', resolve)));
}

/** Draws on the whole terminal, and restores it. */
export class Screen {
  private readonly stops: readonly (() => void)[];
  private isOpen = true;

  constructor(
    private readonly output: Output,
    terminal: Pick<Terminal, 'onExit' | 'onSuspend'>,
  ) {
    output.write(ENTER);
    const onSuspend = terminal.onSuspend(
      () => output.write(LEAVE),
      () => output.write(ENTER),
    );
    this.stops = [onSuspend, terminal.onExit(() => this.close())];
  }

  get size(): { readonly columns: number; readonly rows: number } {
    return { columns: this.output.columns || DEFAULT_COLUMNS, rows: this.output.rows || DEFAULT_ROWS };
  }

  /** Replaces what is shown. Lines that do not fit are left out. */
  draw(lines: readonly string[]): void {
    const { rows } = this.size;
    // After a line as wide as the terminal, CLEAR_LINE would clear its last character.
    const shown = lines.slice(0, rows).map((line) => CLEAR_LINE + line);
    const rest = shown.length < rows ? `\r\n${CLEAR_BELOW}` : '';
    this.output.write(HOME + shown.join('\r\n') + rest);
  }

  /** Restores the previous screen. A second call does nothing. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.output.write(LEAVE);
    for (const stop of this.stops) stop();
  }
}

/** One line on stderr that is written over, if stderr is a terminal. */
export class Progress {
  private isShown = false;

  constructor(private readonly output: Output) {}

  show(line: string): void {
    if (this.output.isTTY !== true) return;
    this.isShown = true;
    this.output.write(`\r${line}${CLEAR_LINE}`);
  }

  clear(): void {
    if (!this.isShown) return;
    this.isShown = false;
    this.output.write(`\r${CLEAR_LINE}`);
  }
}
