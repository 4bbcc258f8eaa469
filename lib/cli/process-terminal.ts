import { createInterface } from 'node:readline';
import { isatty } from 'node:tty';
import type { Terminal } from './terminal.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The terminal of this process. */
export const processTerminal: Terminal = {
  stdout: process.stdout,
  stderr: process.stderr,
  isInteractive: isatty(0) && isatty(2),
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
  onSuspend(leave, enter) {
    const onStop = (): void => {
      leave();
      // The listener prevents what the signal does otherwise.
      process.kill(process.pid, 'SIGSTOP');
    };
    process.on('SIGTSTP', onStop);
    process.on('SIGCONT', enter);
    return () => {
      process.off('SIGTSTP', onStop);
      process.off('SIGCONT', enter);
    };
  },
  onExit(listener) {
    process.once('exit', listener);
    return () => process.off('exit', listener);
  },
};
