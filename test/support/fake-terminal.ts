import type { Output, Terminal } from '../../lib/cli/terminal.js';

type Interrupt = Parameters<Parameters<Terminal['onInterrupt']>[0]>[0];

/** Records what is written. */
export class FakeOutput implements Output {
  text = '';

  constructor(
    readonly isTTY: boolean,
    public columns = 100,
    public rows = 20,
  ) {}

  write(text: string): void {
    this.text += text;
  }

  /** The lines that were written. */
  get lines(): readonly string[] {
    return this.text.split('\n').slice(0, -1);
  }
}

/** A terminal, or pipes, in place of those of the process. */
export class FakeTerminal implements Terminal {
  readonly stdout: FakeOutput;
  readonly stderr: FakeOutput;
  readonly questions: string[] = [];
  private readonly interrupts = new Set<(signal: Interrupt) => void>();
  private readonly exits = new Set<() => void>();
  private readonly suspensions = new Set<{ readonly leave: () => void; readonly enter: () => void }>();

  /** @param replies what the user types. Undefined: Ctrl-C. */
  constructor(
    readonly isInteractive = false,
    private readonly replies: (string | undefined)[] = [],
  ) {
    this.stdout = new FakeOutput(isInteractive);
    this.stderr = new FakeOutput(isInteractive);
  }

  ask(question: string): Promise<string | undefined> {
    this.questions.push(question);
    return Promise.resolve(this.replies.shift());
  }

  onInterrupt(listener: (signal: Interrupt) => void): () => void {
    this.interrupts.add(listener);
    return () => this.interrupts.delete(listener);
  }

  onSuspend(leave: () => void, enter: () => void): () => void {
    const suspension = { leave, enter };
    this.suspensions.add(suspension);
    return () => this.suspensions.delete(suspension);
  }

  onExit(listener: () => void): () => void {
    this.exits.add(listener);
    return () => this.exits.delete(listener);
  }

  /** Sends a signal, as Ctrl-C does. */
  interrupt(signal: Interrupt = 'SIGINT'): void {
    for (const listener of this.interrupts) listener(signal);
  }

  /** Suspends the process by Ctrl-Z. */
  suspend(): void {
    for (const { leave } of this.suspensions) leave();
  }

  /** Continues after {@link suspend}. */
  resume(): void {
    for (const { enter } of this.suspensions) enter();
  }

  /** Ends the process, as an error that nobody catches does. */
  exit(): void {
    for (const listener of this.exits) listener();
  }

  /** How many listeners are left. */
  get listeners(): number {
    return this.interrupts.size + this.exits.size + this.suspensions.size;
  }
}
