// Forked processes and calls to them.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url));

/** A process that runs a scenario or a part of it. */
export class Worker {
  #child;
  #calls = new Map();
  #lastCall = 0;

  /**
   * @param {string} scenario the file in `scenarios/` whose `run` and `ops` it serves
   * @param {{ execPath?: string, env?: NodeJS.ProcessEnv, onProgress?: (share: number) => void }} [options] which Node
   *   runs it, with which environment
   */
  constructor(scenario, { onProgress = () => undefined, ...options } = {}) {
    this.#child = fork(WORKER, [scenario], {
      ...options,
      execArgv: ['--expose-gc', '--no-warnings'],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child.on('message', ({ progress, id, result, error }) => {
      if (progress !== undefined) return onProgress(progress);
      const { resolve, reject } = this.#calls.get(id);
      this.#calls.delete(id);
      if (error === undefined) resolve(result);
      else reject(error);
    });
    this.#child.on('exit', (code, signal) => {
      for (const { reject } of this.#calls.values()) reject(new Error(`${scenario} ended early (${signal ?? code}).`));
      this.#calls.clear();
    });
  }

  call(op, ...args) {
    const id = ++this.#lastCall;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#child.send({ id, op, args });
    });
  }

  /** Ends the process, and with it all that it has started. */
  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.connected) this.#child.disconnect();
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 5_000);
    await ended;
    clearTimeout(late);
  }
}
