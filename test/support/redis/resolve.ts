import { namedBinaryCandidate, pathCandidate } from './binary-source.ts';
import { dockerCandidate } from './docker-source.ts';
import { packagesCandidate } from './packages-source.ts';
import type { RedisCandidate, RedisServer, RedisSource, StartOptions } from './types.ts';
import { urlCandidate } from './url-source.ts';

const ADVICE =
  'Do one of these: apt-get install redis-server (brew install redis); start Docker; ' +
  'set REDIS_SERVER_BIN to a redis-server or valkey-server; set REDIS_URL to a running Redis.';

export class RedisNotFoundError extends Error {
  override readonly name = 'RedisNotFoundError';

  constructor(tried: readonly string[]) {
    super(['No Redis for this run. Tried:', ...tried.map((line) => `  - ${line}`), ADVICE].join('\n'));
  }
}

export interface ResolveOptions {
  /** Accepts only a local process, on which faults can be injected: skips REDIS_URL and Docker. */
  readonly local?: boolean;
  readonly env?: NodeJS.ProcessEnv;
  /** Gets one line about what was refused and what happens now, each time it changes. A download may take minutes. */
  readonly onProgress?: (line: string) => void;
}

function candidates({ local = false, env = process.env }: ResolveOptions): RedisCandidate[] {
  const remote = local ? [] : [urlCandidate(env), dockerCandidate(env)];
  const all = [...remote, namedBinaryCandidate(env), pathCandidate(env), packagesCandidate(env)];
  return all.filter((candidate) => candidate !== undefined);
}

/** Returns the first candidate that `use` accepts. The error names the reason of each refused one. */
async function firstOf<T>(options: ResolveOptions, use: (source: RedisSource) => Promise<T>): Promise<T> {
  const tried: string[] = [];
  const refusals: string[] = [];
  const show = (now: string) => options.onProgress?.([...refusals, now].join(', '));
  for (const candidate of candidates(options)) {
    show(`trying ${candidate.name}`);
    try {
      const source = await candidate.find();
      show(`using ${source.description}`);
      return await use(source);
    } catch (error) {
      const { message } = error as Error;
      tried.push(`${candidate.name}: ${message}`);
      refusals.push(message);
      if (candidate.explicit) break;
    }
  }
  throw new RedisNotFoundError(tried);
}

/** Finds a Redis on this machine without starting it. */
export function resolveRedis(options: ResolveOptions = {}): Promise<RedisSource> {
  return firstOf(options, async (source) => source);
}

/** Starts a Redis from the first source that can. */
export function startRedis(options: StartOptions & ResolveOptions = {}): Promise<RedisServer> {
  return firstOf(options, (source) => source.start(options));
}
