import { createInterface } from 'node:readline';
import type { Terminal } from './terminal.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The terminal of this process. */
export const processTerminal: Terminal = {
  stdout: process.stdout,
  stderr: process.stderr,
  isInteractive: process.stdin.isTTY && process.stderr.isTTY,
  ask(question) {
    return new Promise((resolve) => {
      const lines = createInterface({ input: process.stdin, output: process.stderr });
      lines.once('close', () => resolve(undefined));
      lines.question(question, (reply) => {
        resolve(reply);
        lines.close();
      });
    });
  },
  onInterrupt(listener) {
    const stops = SIGNALS.map((signal) => {
      const onSignal = (): void => listener(signal);
      // The second one ends the process as it would without a listener.
      process.once(signal, onSignal);
      return () => process.off(signal, onSignal);
    });
    return () => {
      for (const stop of stops) stop();
    };
  },
  onExit(listener) {
    process.once('exit', listener);
    return () => process.off('exit', listener);
  },
};
