import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CLASSES } from './maven.js';

/** A process that takes locks as it is told, a command a line; it ends with this one. */
export class Peer {
  private readonly answers: ((line: string) => void)[] = [];
  private readonly exited: Promise<void>;

  private constructor(private readonly child: ChildProcess) {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) =>
      this.answers.shift()?.(line),
    );
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        for (const answer of this.answers.splice(0)) answer('error the process has ended');
        resolve();
      });
    });
  }

  /** A JVM with Redisson. @param url of one Redis, or those of a cluster's nodes with commas between them. */
  static java(url: string, leaseMs = 30_000): Promise<Peer> {
    const classpath = `${join(CLASSES, 'classes')}:${join(CLASSES, 'lib', '*')}`;
    return Peer.started('java', ['-cp', classpath, 'Peer', url, String(leaseMs)]);
  }

  /** A Node process with our store. */
  static node(url: string, leaseMs = 30_000): Promise<Peer> {
    const hooks = join(__dirname, '../support/typescript-hooks.mjs');
    const main = join(__dirname, 'redisson-peer.ts');
    return Peer.started(process.execPath, ['--import', hooks, main, url, String(leaseMs)]);
  }

  private static async started(command: string, args: readonly string[]): Promise<Peer> {
    const peer = new Peer(spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    const line = await peer.nextLine();
    if (line !== 'ready') throw new Error(`${command} did not start: ${line}`);
    return peer;
  }

  async call(...words: readonly string[]): Promise<string> {
    const answer = this.nextLine();
    this.child.stdin?.write(`${words.join(' ')}\n`);
    const line = await answer;
    if (!line.startsWith('ok ')) throw new Error(line);
    return line.slice(3);
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  private nextLine(): Promise<string> {
    return new Promise((resolve) => this.answers.push(resolve));
  }
}
