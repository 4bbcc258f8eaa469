import type { EventEmitter } from 'node:events';
import { LockUnavailableError, messageOf } from '../core/errors.js';
import { type Clock, withTimeout } from '../core/time/clock.js';
import { openAddress, type OwnRedis } from '../redis/open-redis.js';
import { CliError, EXIT, usageError } from './exit-codes.js';
import type { RedisTarget } from './redis-target.js';

const CLOSED = /it closed the connection|ECONNRESET/;

/** Matches errors of a TLS connection to a server without TLS: most often, the server waits for the end of a line. */
const NO_TLS = new RegExp(
  `${CLOSED.source}|wrong version number|packet length|EPROTO|not ready within|[Tt]imed out|ETIMEDOUT|^timeout$`,
);

/** Which advice is for which error. The first match counts. */
const ADVICE: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [
    /\b(?:NOAUTH|WRONGPASS|invalid password|ERR AUTH)\b/,
    'Give the user and the password in the URL, or through REDIS_USERNAME and REDIS_PASSWORD',
  ],
  [/cluster support disabled|unknown command.*cluster/i, 'This server is not a cluster: use redis://'],
  [/certificate|self.signed/i, 'Node trusts your own authority if NODE_EXTRA_CA_CERTS names its file'],
  [CLOSED, 'Does this server expect rediss://, for TLS?'],
  [/invalid reply: null|No such master with that name/, 'The Sentinel does not know a master with that name'],
];

/** The advice for errors that no pattern matches: nothing replies at the address. */
const ADVICE_BY_KIND = {
  redis: 'Start it, or give its address with --redis or REDIS_URL',
  cluster: 'At least one of these nodes must be running, and the state of the cluster must be ok',
  sentinel: 'At least one of these Sentinels must be running',
} as const;

/** Matches errors of a connection that could not be made. */
const NO_CONNECTION =
  /\bE(?:CONNREFUSED|NOTFOUND|AI_AGAIN|NOENT|HOSTUNREACH|NETUNREACH|TIMEDOUT)\b|not ready within|no connection could/;

/**
 * Connects to Redis and waits until it accepts commands.
 *
 * @throws CliError that says what to change, within `timeoutMs`.
 */
export async function connectTo(target: RedisTarget, timeoutMs: number, clock: Clock): Promise<OwnRedis> {
  const opened = openAddress(target.redis, clock);
  try {
    await untilReady(opened, target, timeoutMs, clock);
    if (target.kind === 'redis') await checkNoCluster(opened, target, timeoutMs, clock);
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

function untilReady(opened: OwnRedis, target: RedisTarget, timeoutMs: number, clock: Clock): Promise<void> {
  const client: Pick<EventEmitter, 'on'> = opened.ioredis;
  // What is known of the outage when the client reports it, or when the timeout has elapsed.
  let detail: Error | undefined;
  const onDetail = (error: Error): void => void (detail = error);
  const ready = new Promise<void>((resolve, reject) => {
    client.on('ready', resolve);
    client.on('node error', onDetail);
    client.on('sentinelError', onDetail);
    const onClose = (): void => void (detail ??= new Error('it closed the connection'));
    // A server that expects TLS closes the connection, and the client retries silently. A cluster closes by itself.
    if (target.kind !== 'cluster') client.on('close', onClose);
    // The client would try again, but somebody is waiting at a terminal.
    client.on('error', (error) => reject(unreachable(target, causeOf(error, detail))));
    opened.connect();
  });
  return withTimeout(clock, timeoutMs, ready, () => {
    throw unreachable(target, detail ?? new Error(`it was not ready within ${timeoutMs} ms`));
  });
}

/** Some errors of ioredis only say that all servers failed. Then the last error of a server has the reason. */
function causeOf(error: Error, detail: Error | undefined): Error {
  const last: unknown = 'lastNodeError' in error ? error.lastNodeError : undefined;
  if (last instanceof Error) return last;
  return /^(?:All sentinels|Failed to refresh)/.test(error.message) ? (detail ?? error) : error;
}

function unreachable(target: RedisTarget, cause: Error): CliError {
  const why = reasonIn(cause).replace(/\.$/, '');
  const advice = adviceFor(target, why);
  const message = `Redis cannot be used at ${target.shown}: ${why}.`;
  return new CliError(EXIT.unavailable, message, { cause, advice: advice && sentence(advice) });
}

function adviceFor({ kind, tls }: RedisTarget, why: string): string | undefined {
  const scheme = kind === 'redis' ? '' : `-${kind}`;
  if (tls && NO_TLS.test(why))
    return `TLS may be the reason: does this server expect redis${scheme}:// in place of rediss${scheme}://?`;
  const found = ADVICE.find(([pattern]) => pattern.test(why))?.[1];
  return found ?? (NO_CONNECTION.test(why) ? ADVICE_BY_KIND[kind] : undefined);
}

function sentence(text: string): string {
  return text.endsWith('?') ? text : `${text}.`;
}

/** Returns the message of an error. A host with several addresses has an error for each, and no message of its own. */
function reasonIn(error: Error): string {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  if (error.message === '' && errors.length > 0) return errors.map(messageOf).join(', ');
  // ioredis says this of a connection to a node or a Sentinel that was never open.
  const message = messageOf(error).replace(/Connection is closed\.?/, 'no connection could be made');
  return message || error.name;
}

/**
 * One node of a cluster has only a part of the locks.
 *
 * @throws CliError if the server is such a node.
 */
async function checkNoCluster(
  { ioredis }: OwnRedis,
  target: RedisTarget,
  timeoutMs: number,
  clock: Clock,
): Promise<void> {
  // A server may refuse INFO. Then the first request shows what is wrong.
  const info = await withTimeout<unknown>(clock, timeoutMs, ioredis.info(), () => '').catch(() => '');
  if (/^cluster_enabled:1\r?$/m.test(String(info))) {
    throw usageError(
      `${target.shown} is a node of a cluster. Name some nodes of the cluster: redis-cluster://host:port.`,
    );
  }
}
