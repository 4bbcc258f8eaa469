import { LockUnavailableError, messageOf } from '../common/errors.js';

/** Redis 6.2 puts the error code inside the text of a script's error. Later versions put it first. */
const CODE_IN_SCRIPT =
  /\b(?:WRONGTYPE|NOPERM|CROSSSLOT|CLUSTERDOWN|TRYAGAIN|READONLY|OOM|LOADING|MASTERDOWN|MISCONF|NOREPLICAS)\b/;

/** How Redis 6.2 says that the user may not run a command in a script. */
const SCRIPT_PERMISSION = /ACL failure|can't run this command/;

/** The codes of errors that stay if the request is sent again. */
const PERMANENT = new Set<string | undefined>(['WRONGTYPE', 'NOAUTH', 'WRONGPASS', 'NOPERM', 'CROSSSLOT', 'ERR']);

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

/** What to change, for replies that do not say so themselves. */
const ADVICE: readonly (readonly [reply: RegExp, advice: string])[] = [
  [/\bREADONLY\b/, 'this server is a read-only replica: connect to the master'],
  [
    new RegExp(`\\bNOPERM\\b|${SCRIPT_PERMISSION.source}`),
    '"Permissions" on the page "Which Redis, how many modules" lists what the user needs (npm docs nestjs-redis-lock)',
  ],
  [/unknown command '?`?ssubscribe|Unknown subcommand.*SHARDNUMSUB/i, 'handoffs in a cluster need Redis 7'],
  // Redis and Valkey, Envoy, Garnet, Tair.
  [
    /\bun(?:known|supported) command\b|scripting support disabled|command \w+ not support/i,
    '"Servers" on the page "Which Redis, how many modules" says what works without it (npm docs nestjs-redis-lock)',
  ],
];

/**
 * Converts an error of a client to a `LockUnavailableError` with the reason that Redis gives. Returns a
 * `LockUnavailableError` as it is.
 *
 * @param subject what the request was for, for example `a lock`.
 */
export function unavailableBecause(error: unknown, subject: string): LockUnavailableError {
  if (error instanceof LockUnavailableError) return error;
  const refusal = codeOf(messageOf(error));
  return new LockUnavailableError(`No usable reply for ${subject}: ${reasonOf(error)}.`, {
    cause: withoutArguments(error),
    permanent: PERMANENT.has(refusal),
    refusal,
  });
}

/** Where in a script Redis 7 has failed. It says nothing to users. */
const PLACE_IN_SCRIPT = / script: [\da-f]{40}, on @user_script:\d+\.?$/;

/** How a server repeats the arguments of a command that it does not know. They hold keys and owners of locks. */
const UNKNOWN_ARGUMENTS = /, with args beginning with:.*$/s;

/** Returns the message of an error without its full stop, and before it what to change, if it does not say so. */
export function reasonOf(error: unknown): string {
  const message = messageOf(error).replace(PLACE_IN_SCRIPT, '').replace(UNKNOWN_ARGUMENTS, '').replace(/\.$/, '');
  const advice = ADVICE.find(([reply]) => reply.test(message))?.[1];
  return advice === undefined ? message : `${advice} (${message})`;
}

/** How errors of a connection say that the server has closed it. */
const CLOSED = /ECONNRESET|EPIPE|socket hang up|closed the connection|connection was closed|Socket closed/;

/** Returns whether an error of a connection says that the server has closed it. */
export function hasClosed(error: Error | undefined): boolean {
  return error !== undefined && CLOSED.test(error.message);
}

/** What errors of a connection with TLS say if the server does not use TLS. It may not reply to the handshake. */
const NO_TLS =
  /is connecting|secure TLS connection|wrong version number|packet length too long|ETIMEDOUT|timeout|not ready/i;

/**
 * Returns the error of a connection that was never ready. The error asks about TLS if the server has closed the
 * connection, which a server with TLS does to one without it, or if a connection with TLS got no handshake.
 */
export function neverConnected(error: Error, usesTls: boolean): Error {
  const { message } = error;
  const isAboutTls = hasClosed(error) || (usesTls && NO_TLS.test(message));
  if (!isAboutTls) return error;
  const expected = usesTls ? 'no TLS (redis://)' : 'TLS (rediss://)';
  return new Error(`${message}: does the server expect ${expected}?`);
}

/** Returns the error of the client or the server from which `unavailableBecause` has made this error. */
export function causeOf(error: unknown): unknown {
  return error instanceof LockUnavailableError ? (error.cause ?? error) : error;
}

/** Returns the error code of a server's reply. Undefined for an error of the connection. */
function codeOf(message: string): string | undefined {
  if (SCRIPT_PERMISSION.test(message)) return 'NOPERM';
  return CODE_IN_SCRIPT.exec(message)?.[0] ?? /^([A-Z][A-Z\d]{2,}) /.exec(message)?.[1];
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

/** Returns true if a server refuses other scripts as well just now, whatever their keys. */
export function refusesEverything(error: unknown): boolean {
  return REFUSING_EVERYTHING.has(unavailableBecause(error, 'a script').refusal);
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
  // The error of the node may hold the arguments of its command.
  return new Error(`${failure.message.replace(/\.$/, '')}: ${messageOf(last)}`);
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
