import { LockUnavailableError, messageOf } from '../core/errors.js';

interface Refusal {
  /** The error code, for programs. */
  readonly code: string;
  readonly matches: RegExp;
  readonly permanent: boolean;
  readonly advice: string;
}

/**
 * Advice for each error of a server. Redis 6.2 puts the error code inside the text of a script's error, later versions
 * put it first. The first match counts. `permanent`: sending the request again does not help.
 */
const REFUSALS: readonly Refusal[] = [
  {
    code: 'WRONGTYPE',
    matches: /\bWRONGTYPE\b/,
    permanent: true,
    advice: 'the key holds a value of another type: give the locks a prefix that nothing else uses',
  },
  {
    code: 'NOAUTH',
    matches: /\b(NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH)\b/,
    permanent: true,
    advice: 'Redis requires a user name and a password, or different ones: see the `redis` option',
  },
  {
    code: 'NOPERM',
    matches: /\bNOPERM\b.*\bscan\b/i,
    permanent: true,
    advice: 'the Redis user may not list keys: allow it the command SCAN, as docs/permissions.md says',
  },
  {
    code: 'NOPERM',
    matches: /\bNOPERM\b|ACL failure|can't run this command/,
    permanent: true,
    advice:
      'the Redis user may not do this: allow it the lock keys, and the commands and channels that ' +
      'docs/permissions.md lists',
  },
  {
    code: 'ERR',
    matches: /unknown command '?`?ssubscribe|Unknown subcommand.*SHARDNUMSUB/i,
    permanent: true,
    advice: 'handoffs in a cluster use sharded pub/sub, which needs Redis 7',
  },
  {
    code: 'CROSSSLOT',
    matches: /\bCROSSSLOT\b/,
    permanent: true,
    advice: "the client's keyPrefix takes a lock and its queue to different slots: put no braces into it",
  },
  {
    code: 'CLUSTERDOWN',
    matches: /\bCLUSTERDOWN\b/,
    permanent: false,
    advice: 'the cluster has no master for this slot',
  },
  { code: 'TRYAGAIN', matches: /\bTRYAGAIN\b/, permanent: false, advice: 'the slot is moving to another node' },
  {
    code: 'ERR',
    matches: /unknown command\W+(?:eval|evalsha|time)\b/i,
    permanent: true,
    advice: 'this server has no scripts, which only timestamp({ scripts: false }) can do without',
  },
  {
    code: 'ERR',
    matches: /unknown command\W+scan\b/i,
    permanent: true,
    advice: 'this server or its proxy has no SCAN, without which locks cannot be listed',
  },
  {
    code: 'ERR',
    matches: /subscriber mode/,
    permanent: true,
    advice: 'the client is subscribed: give the module one of its own, for example by `client.duplicate()`',
  },
  {
    code: 'READONLY',
    matches: /\bREADONLY\b/,
    permanent: false,
    advice: 'this server is a read-only replica: connect to the master',
  },
  { code: 'OOM', matches: /\bOOM\b/, permanent: false, advice: 'Redis is out of memory: see its maxmemory' },
  { code: 'LOADING', matches: /\bLOADING\b/, permanent: false, advice: 'Redis is loading its data' },
  { code: 'MASTERDOWN', matches: /\bMASTERDOWN\b/, permanent: false, advice: 'the replica has lost its master' },
  {
    code: 'MISCONF',
    matches: /\bMISCONF\b/,
    permanent: false,
    advice: 'Redis cannot save to disk and refuses writes',
  },
  {
    code: 'NOREPLICAS',
    matches: /\bNOREPLICAS\b/,
    permanent: false,
    advice: 'Redis has too few replicas to accept writes',
  },
  { code: 'BUSY', matches: /^BUSY\b/, permanent: false, advice: 'Redis is busy with a script of another client' },
  { code: 'ERR', matches: /^ERR /, permanent: true, advice: 'Redis refused the command' },
];

/**
 * Converts an error of ioredis to a `LockUnavailableError` that says what to change. Returns a `LockUnavailableError`
 * as it is.
 *
 * @param subject what the request was for, for example `a lock`.
 */
export function unavailableBecause(error: unknown, subject: string): LockUnavailableError {
  if (error instanceof LockUnavailableError) return error;
  const message = messageOf(error);
  const refusal = REFUSALS.find(({ matches }) => matches.test(message));
  const why = refusal === undefined ? message : `${refusal.advice} (${message})`;
  return new LockUnavailableError(`No usable reply for ${subject}: ${why}.`, {
    cause: withoutArguments(error),
    permanent: refusal?.permanent ?? false,
    refusal: refusal?.code ?? codeOf(message),
  });
}

/** Returns the error of the client or the server from which `unavailableBecause` has made this error. */
export function causeOf(error: unknown): unknown {
  return error instanceof LockUnavailableError ? (error.cause ?? error) : error;
}

/** Returns the error code of another reply of a server. Undefined for an error of the connection. */
function codeOf(message: string): string | undefined {
  return /^([A-Z][A-Z\d]{2,}) /.exec(message)?.[1];
}

/** Returns true if the server refuses a script because its keys are in several slots. */
export function isCrossSlot(error: unknown): boolean {
  return /\bCROSSSLOT\b/.test(messageOf(causeOf(error)));
}

/** Returns true for an error that a server sent, and false for one of the connection. */
export function isErrorReply(error: unknown): boolean {
  const cause = causeOf(error);
  return cause instanceof Error && cause.name === 'ReplyError';
}

/** The codes of errors that a server replies to every script, whatever its keys. */
const REFUSING_EVERYTHING = new Set<string | undefined>([
  'BUSY',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOAUTH',
  'NOREPLICAS',
  'READONLY',
]);

/** Returns true if a server refuses other scripts as well just now, whatever their keys. */
export function refusesEverything(error: unknown): boolean {
  return REFUSING_EVERYTHING.has(unavailableBecause(error, 'a script').refusal);
}

/** Converts the error of a failed acquire request. */
export function acquireFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a lock');
}

/** Converts the error of a failed release. */
export function releaseFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a release');
}

/** Converts the error of a failed renewal. */
export function extendFailed(error: unknown): LockUnavailableError {
  return unavailableBecause(error, 'a renewal');
}

/** Returns the error without the `command` that ioredis adds. Its arguments hold owners of locks and passwords. */
export function withoutArguments<E>(error: E): E | Error {
  if (!(error instanceof Error) || !('command' in error)) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}

/** Returns true if the server does not have the script, for example after SCRIPT FLUSH, a restart or a failover. */
export function isScriptMissing(error: unknown): boolean {
  return messageOf(error).startsWith('NOSCRIPT');
}

/** Returns true if the server has no sharded channels because it is older than Redis 7. */
export function isShardingMissing(error: unknown): boolean {
  return /unknown command '?`?ssubscribe/i.test(messageOf(error));
}

/** Returns true if the server refuses EVALSHA. It may still accept EVAL. */
export function isEvalShaRefused(error: unknown): boolean {
  return /(unknown command|NOPERM|not allowed).*evalsha/i.test(messageOf(error));
}

/**
 * Returns an error of ioredis' Cluster with the reason of the node that it tried last. Its own message only says that
 * all nodes have failed.
 */
export function clusterFailure(error: unknown): Error {
  const failure = toError(error);
  const last: unknown = 'lastNodeError' in failure ? failure.lastNodeError : undefined;
  if (last === undefined || last === null) return failure;
  const reason = messageOf(last);
  const isNoCluster = /cluster support disabled/.test(reason);
  const why = isNoCluster ? `this server is not a cluster: give \`redis\` its URL, without nodes (${reason})` : reason;
  // The error of the node may hold the arguments of its command.
  return new Error(`${failure.message.replace(/\.$/, '')}: ${why}`);
}

/** Returns the error itself, or an `Error` with the value as its message. */
export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Returns whether a client has given up an attempt to connect, because it took too long. */
export function isConnectTimeout(error: Error): boolean {
  // The first is of node-redis, which gives its errors no names.
  return error.message === 'Connection timeout' || (error as NodeJS.ErrnoException).code === 'ETIMEDOUT';
}
