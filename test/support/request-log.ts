import { createHash } from 'node:crypto';
import { luaScripts } from '../../lib/lua/index.js';
import type { RedisProxy } from './proxy.js';

const scripts = new Map(
  Object.entries(luaScripts).flatMap(([name, { lua }]) => [
    [lua, name],
    [createHash('sha1').update(lua).digest('hex'), name],
  ]),
);

/** What the clients of a proxy ask for, by name: a script's as in `lib/lua`, or that of a command. */
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

  /** Where the asks stand that join the queue. */
  get queueing(): readonly number[] {
    // Behind EVAL, script and number of keys: three keys and four arguments.
    return this.all.flatMap(({ name, words }, i) => (name === 'tokenAsk' && words[10] === '1' ? [i] : []));
  }

  /** The words of each request of that name. */
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
