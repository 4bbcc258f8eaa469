import type { Terminal } from '../../lib/cli/terminal.js';

/** Records what is written. */
export class FakeTerminal implements Terminal {
  out = '';
  err = '';
  readonly questions: string[] = [];

  /** @param reply what the user types, if a question can be asked. Empty: Ctrl-C. */
  constructor(private readonly reply?: string) {}

  get isInteractive(): boolean {
    return this.reply !== undefined;
  }

  async print(text: string): Promise<void> {
    this.out += text;
  }

  complain(line: string): void {
    this.err += `${line}\n`;
  }

  async ask(question: string): Promise<string> {
    this.questions.push(question);
    return this.reply ?? '';
  }
}
