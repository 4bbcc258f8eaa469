import { LockUnavailableError, messageOf } from '../core/errors.js';
import { type Clock, withTimeout } from '../core/time/clock.js';
import { openRedis, type OpenedRedis } from '../redis/open-redis.js';
import { CliError, EXIT, usageError } from './exit-codes.js';
import type { RedisTarget } from './redis-target.js';

/** The part of a client that only the command line uses. */
interface CliClient {
  on(event: 'ready', listener: () => void): unknown;
  on(event: 'error' | 'node error', listener: (error: Error) => void): unknown;
  info(): Promise<unknown>;
}

const AUTHENTICATION = /\b(?:NOAUTH|WRONGPASS|invalid password|ERR AUTH)\b/;

/**
 * Connects to Redis and waits until it accepts commands.
 *
 * @throws CliError that says what to change, after `timeoutMs` at the latest.
 */
export async function connectTo(target: RedisTarget, timeoutMs: number, clock: Clock): Promise<OpenedRedis> {
  const opened = openRedis(target.redis, clock);
  const client = opened.client as unknown as CliClient;
  try {
    await untilReady(opened, client, target, timeoutMs, clock);
    if (target.kind === 'redis') await checkNoCluster(client, target, timeoutMs, clock);
    return opened;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/**
 * Returns the result of a request.
 *
 * @param consequence completes the error with what may have happened.
 * @throws LockUnavailableError if there is no reply in time.
 */
export function inTime<T>(clock: Clock, timeoutMs: number, request: Promise<T>, consequence = ''): Promise<T> {
  return withTimeout(clock, timeoutMs, request, () => {
    throw new LockUnavailableError(`Redis did not reply within ${timeoutMs} ms.${consequence}`);
  });
}

function untilReady(
  opened: OpenedRedis,
  client: CliClient,
  target: RedisTarget,
  timeoutMs: number,
  clock: Clock,
): Promise<void> {
  let lastNodeError: Error | undefined;
  const ready = new Promise<void>((resolve, reject) => {
    client.on('ready', resolve);
    client.on('node error', (error) => (lastNodeError = error));
    // The client would try again. Somebody waits at a terminal.
    client.on('error', (error) => reject(unreachable(target, nodeErrorIn(error) ?? lastNodeError ?? error)));
    opened.connect();
  });
  return withTimeout(clock, timeoutMs, ready, () => {
    throw unreachable(target, lastNodeError ?? new Error(`it was not ready within ${timeoutMs} ms`));
  });
}

/** ioredis puts the error of the last node into an error that only says that all have failed. */
function nodeErrorIn(error: Error): Error | undefined {
  const last: unknown = 'lastNodeError' in error ? error.lastNodeError : undefined;
  return last instanceof Error ? last : undefined;
}

function unreachable({ kind, shown }: RedisTarget, cause: Error): CliError {
  const why = reasonIn(cause).replace(/\.$/, '');
  return new CliError(EXIT.unavailable, `Redis cannot be used at ${shown}: ${why}. ${adviceOn(why, kind)}`, { cause });
}

/** Returns the message of an error. A host with several addresses has an error for each, and no message of its own. */
function reasonIn(error: Error): string {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  if (error.message === '' && errors.length > 0) return errors.map(messageOf).join(', ');
  return messageOf(error) || error.name;
}

function adviceOn(message: string, kind: RedisTarget['kind']): string {
  if (AUTHENTICATION.test(message)) {
    const url = kind === 'redis' ? 'in the URL, or ' : '';
    return `Give the user and the password ${url}by REDIS_USERNAME and REDIS_PASSWORD.`;
  }
  if (/cluster support disabled|unknown command.*cluster/i.test(message)) {
    return 'This server is no cluster: use --redis.';
  }
  if (kind === 'sentinel') return 'Check --sentinel and --master, and that the Sentinels know a master of that name.';
  if (kind === 'cluster') return 'Check --cluster, and that one of these nodes runs.';
  return 'Start it, or give its address by --redis or REDIS_URL. See also --cluster and --sentinel.';
}

/**
 * One node of a cluster has a part of the locks only.
 *
 * @throws CliError if the server is such a node.
 */
async function checkNoCluster(client: CliClient, target: RedisTarget, timeoutMs: number, clock: Clock): Promise<void> {
  // A server may refuse INFO. Then the first request shows what is wrong.
  const info = await withTimeout<unknown>(clock, timeoutMs, client.info(), () => '').catch(() => '');
  if (/^cluster_enabled:1\r?$/m.test(String(info))) {
    throw usageError(`${target.shown} is a node of a cluster. Give some of its nodes: --cluster host:port,host:port.`);
  }
}
