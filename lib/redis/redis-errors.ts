import { LockUnavailableError, messageOf } from '../core/errors.js';

/**
 * What a server's refusal means to the user. Redis 6.2 puts it into the text of a script's error, later ones in front. The
 * first that fits counts; `permanent`: asking again does not help.
 */
const REFUSALS: readonly { readonly matches: RegExp; readonly permanent: boolean; readonly advice: string }[] = [
  {
    matches: /\bWRONGTYPE\b/,
    permanent: true,
    advice: 'the key holds a value of another type: give the locks a prefix that nothing else uses',
  },
  {
    matches: /\b(NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH)\b/,
    permanent: true,
    advice: 'Redis wants a user name and a password, or other ones: see the `redis` option',
  },
  {
    matches: /\bNOPERM\b|ACL failure|can't run this command/,
    permanent: true,
    advice:
      'the Redis user may not do this: allow it the lock keys, and the commands and channels that the README lists for ' +
      'token(), docs/algorithms.md for other stores',
  },
  {
    matches: /unknown command '?`?ssubscribe|Unknown subcommand.*SHARDNUMSUB/i,
    permanent: true,
    advice: 'sharded pub/sub, by which a cluster tells of locks, needs Redis 7',
  },
  {
    matches: /\bCROSSSLOT\b/,
    permanent: true,
    advice: "the client's keyPrefix takes a lock and its queue to different slots: put no braces into it",
  },
  { matches: /\bCLUSTERDOWN\b/, permanent: false, advice: 'the cluster has no master for this slot' },
  { matches: /\bTRYAGAIN\b/, permanent: false, advice: 'the slot is on its way to another node' },
  {
    matches: /unknown command\W+(?:eval|evalsha|time)\b/i,
    permanent: true,
    advice: 'this server has no scripts, which only timestamp({ scripts: false }) can do without',
  },
  {
    matches: /subscriber mode/,
    permanent: true,
    advice: 'the client is subscribed: give the module one of its own, for example by `client.duplicate()`',
  },
  { matches: /\bREADONLY\b/, permanent: false, advice: 'this server is a read-only replica: connect to the master' },
  { matches: /\bOOM\b/, permanent: false, advice: 'Redis is out of memory: see its maxmemory' },
  { matches: /\bLOADING\b/, permanent: false, advice: 'Redis is loading its data' },
  { matches: /\bMASTERDOWN\b/, permanent: false, advice: 'the replica has lost its master' },
  { matches: /\bMISCONF\b/, permanent: false, advice: 'Redis cannot save to disk and refuses to write' },
  { matches: /\bNOREPLICAS\b/, permanent: false, advice: 'Redis has too few replicas to accept writes' },
  { matches: /^BUSY\b/, permanent: false, advice: 'Redis is busy with a script of somebody else' },
  { matches: /^ERR /, permanent: true, advice: 'Redis refused the command' },
];

/** Where in a cluster a request has to go instead. */
export interface Redirection {
  /** `again`: to the same place, a little later. `lost`: the connection has ended, perhaps because the node has. */
  readonly kind: 'moved' | 'ask' | 'again' | 'lost';
  /** Empty where it is the same as of who answered. */
  readonly host: string;
  readonly port: string;
}

const REDIRECTIONS: Record<string, Redirection['kind']> = {
  MOVED: 'moved',
  ASK: 'ask',
  TRYAGAIN: 'again',
  'Connection is closed': 'lost',
};

/** What became of a request to a node of a cluster which has to go elsewhere; undefined for every other error. */
export function redirectionIn(error: unknown): Redirection | undefined {
  const answer = error instanceof LockUnavailableError ? error.cause : error;
  // The last colon is in front of the port: addresses of IPv6 come without brackets.
  const found = /^(MOVED|ASK|TRYAGAIN|Connection is closed)\b(?: \d+ (\S*):(\d+))?/.exec(messageOf(answer));
  if (found === null) return undefined;
  const [, kind, host = '', port = ''] = found;
  return { kind: REDIRECTIONS[kind], host, port };
}

/** Turns what ioredis rejected with into the error of this library, saying what to change. */
export function unavailableBecause(error: unknown, subject: string): LockUnavailableError {
  if (error instanceof LockUnavailableError) return error;
  const message = messageOf(error);
  const refusal = REFUSALS.find(({ matches }) => matches.test(message));
  const why = refusal === undefined ? message : `${refusal.advice} (${message})`;
  return new LockUnavailableError(`No answer of use for ${subject}: ${why}.`, {
    cause: withoutArguments(error),
    permanent: refusal?.permanent ?? false,
  });
}

/** ioredis' errors carry the command with its arguments: owners of locks, and passwords. */
export function withoutArguments<E>(error: E): E | Error {
  if (!(error instanceof Error) || !('command' in error)) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}

/** The server does not know the script (any more): after SCRIPT FLUSH, a restart or a failover. */
export function isScriptMissing(error: unknown): boolean {
  return messageOf(error).startsWith('NOSCRIPT');
}

/** The server has no sharded channels: it is older than Redis 7. */
export function isShardingMissing(error: unknown): boolean {
  return /unknown command '?`?ssubscribe/i.test(messageOf(error));
}

/** The server takes EVAL at most. */
export function isEvalShaRefused(error: unknown): boolean {
  return /(unknown command|NOPERM|not allowed).*evalsha/i.test(messageOf(error));
}

export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
