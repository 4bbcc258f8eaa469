import { createHash } from 'node:crypto';
import { embeddedScripts } from './embedded-scripts.js';
import type { RedisProxy } from './proxy.js';

const scripts = new Map(
  [...embeddedScripts].flatMap(([name, lua]) => [
    [lua, name],
    [createHash('sha1').update(lua).digest('hex'), name],
  ]),
);

/** The requests of a proxy's clients: the name of the script, as in `embeddedScripts`, or of the command. */
export class RequestLog {
  private readonly all: { readonly name: string; readonly words: readonly string[] }[] = [];

  constructor(proxy: RedisProxy) {
    proxy.filter = (words) => {
      this.all.push({ name: scripts.get(words[1] ?? '') ?? words[0].toLowerCase(), words });
      return undefined;
    };
  }

  get names(): readonly string[] {
    return this.all.map(({ name }) => name);
  }

  /** The scripts that were requested for locks, without those that try whether messages may be sent. */
  get lockRequests(): readonly string[] {
    return this.names.filter((name) => name.startsWith('token') && name !== 'tokenTryMessages');
  }

  /** Returns the arguments of each request of that name. */
  requestsOf(name: string): string[][] {
    return this.all.filter((one) => one.name === name).map(({ words }) => [...words]);
  }

  count(name: string): number {
    return this.names.filter((one) => one === name).length;
  }

  clear(): void {
    this.all.length = 0;
  }
}
