import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { LIBRARY_PEER } from './install-libraries.js';
import { classesOf, REDISSON_VERSIONS } from './maven.js';

/** A process that takes commands about locks, one a line. It ends with this process. */
export class Peer {
  private readonly replies: ((line: string) => void)[] = [];
  private readonly exited: Promise<void>;

  private constructor(private readonly child: ChildProcess) {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) =>
      this.replies.shift()?.(line),
    );
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        for (const reply of this.replies.splice(0)) reply('error the process has ended');
        resolve();
      });
    });
  }

  /**
   * Starts a JVM with Redisson. @param url the URL of a Redis, or the URLs of a cluster's nodes, separated by commas.
   */
  static java(url: string, leaseMs = 30_000, version: string = REDISSON_VERSIONS[0]): Promise<Peer> {
    const folder = classesOf(version);
    const classpath = `${join(folder, 'classes')}:${join(folder, 'lib', '*')}`;
    return Peer.started('java', ['-cp', classpath, 'Peer', url, String(leaseMs)]);
  }

  /** Starts a Node process with this library. */
  static node(url: string, leaseMs = 30_000): Promise<Peer> {
    const hooks = join(__dirname, '../support/typescript-hooks.mjs');
    const main = join(__dirname, 'redisson-peer.ts');
    return Peer.started(process.execPath, ['--import', hooks, main, url, String(leaseMs)]);
  }

  /** Starts a Node process with another library of npm, on one Redis or on several. */
  static library(name: string, urls: readonly string[], leaseMs = 30_000): Promise<Peer> {
    return Peer.started(process.execPath, [LIBRARY_PEER, name, urls.join(','), String(leaseMs)]);
  }

  private static async started(command: string, args: readonly string[]): Promise<Peer> {
    const peer = new Peer(spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    const line = await peer.nextLine();
    if (line !== 'ready') throw new Error(`${command} did not start: ${line}`);
    return peer;
  }

  async call(...words: readonly string[]): Promise<string> {
    const reply = this.nextLine();
    this.child.stdin?.write(`${words.join(' ')}\n`);
    const line = await reply;
    if (!line.startsWith('ok ')) throw new Error(line);
    return line.slice(3);
  }

  /** Kills the process with SIGKILL. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  private nextLine(): Promise<string> {
    return new Promise((resolve) => this.replies.push(resolve));
  }
}
