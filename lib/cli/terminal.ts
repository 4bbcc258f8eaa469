/** The part of a stream that the command line writes to. */
export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  write(text: string): unknown;
}

/** Where the command line reads and writes. */
export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Whether a question can be asked. */
  readonly isInteractive: boolean;
  /** Prints a question on stderr. Returns the reply, or undefined if the input ends or the user presses Ctrl-C. */
  ask(question: string): Promise<string | undefined>;
  /** Calls the listener when the user presses Ctrl-C, or when the process is to end. Returns how to stop. */
  onInterrupt(listener: (signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') => void): () => void;
  /** Calls the listener when the process ends in any way but SIGKILL. Returns how to stop. */
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

/** Draws on the whole terminal, and restores it. */
export class Screen {
  private readonly stopListening: () => void;
  private isOpen = true;

  constructor(
    private readonly output: Output,
    terminal: Pick<Terminal, 'onExit'>,
  ) {
    output.write(ENTER);
    this.stopListening = terminal.onExit(() => this.close());
  }

  get size(): { readonly columns: number; readonly rows: number } {
    return { columns: this.output.columns || DEFAULT_COLUMNS, rows: this.output.rows || DEFAULT_ROWS };
  }

  /** Replaces what is shown. Lines that do not fit are left out. */
  draw(lines: readonly string[]): void {
    const shown = lines.slice(0, this.size.rows).map((line) => line + CLEAR_LINE);
    this.output.write(`${HOME}${shown.join('\r\n')}${CLEAR_BELOW}`);
  }

  /** Shows again what was there before. Does nothing the second time. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.output.write(LEAVE);
    this.stopListening();
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
