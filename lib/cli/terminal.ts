import { createInterface } from 'node:readline';
import { isatty } from 'node:tty';

/** Where the command line reads and writes. */
export interface Terminal {
  /** Whether a question can be asked. */
  readonly isInteractive: boolean;
  /** Writes to stdout. Resolves when that is written, because a reader may be slower than a listing. */
  print(text: string): Promise<void>;
  /** Writes one line to stderr. */
  complain(line: string): void;
  /** Prints a question on stderr. Returns the reply, which is empty if the input ends or the user presses Ctrl-C. */
  ask(question: string): Promise<string>;
}

/** The terminal of this process. */
export const processTerminal: Terminal = {
  isInteractive: isatty(0) && isatty(2),
  print(text) {
    return new Promise((resolve) => process.stdout.write(text, () => resolve()));
  },
  complain(line) {
    process.stderr.write(`${line}\n`);
  },
  ask(question) {
    return new Promise((resolve) => {
      const lines = createInterface({ input: process.stdin, output: process.stderr });
      lines.once('close', () => resolve(''));
      lines.question(question, (reply) => {
        resolve(reply);
        lines.close();
      });
    });
  },
};
