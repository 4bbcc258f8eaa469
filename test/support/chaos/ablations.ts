import { SystemClock } from '../../../lib/clock/clock.js';
import { Attempt } from '../../../lib/engine/attempt.js';
import { KeyQueue } from '../../../lib/engine/key-queue.js';
import { Lock } from '../../../lib/engine/lock.js';
import { LockEngine } from '../../../lib/engine/lock-engine.js';
import { Releaser } from '../../../lib/engine/releaser.js';
import { Renewer } from '../../../lib/engine/renewer.js';
import { ClusterTopology } from '../../../lib/redis/cluster/cluster-topology.js';
import { RedisConnection } from '../../../lib/redis/redis-connection.js';
import { RedisScript } from '../../../lib/redis/redis-script.js';
import type { AcquireReply } from '../../../lib/contract/store.js';
import { scripts } from '../../../lib/stores/token/scripts.js';

/** Scripts by what they do. Those for one lock and for several are edited alike. */
const ACQUIRE = ['acquire', 'acquireMany'] as const;
const RELEASE = ['release', 'releaseMany'] as const;
const EXTEND = ['extend', 'extendMany'] as const;
/** The scripts that hand off. */
const HANDING_OFF = [...ACQUIRE, ...RELEASE, 'forceRelease'] as const;
/** Finite: the library compares with Infinity where there is no bound. */
const FOREVER = 1e12;
const LONG_LEASE_MS = 20_000;

/**
 * Switches one defence of the library off, in the process of a control run only. Each replaces a part of a script or a
 * method before the library is loaded. A part that no longer exists is an error: a control run would keep its
 * defence unnoticed.
 */
const ablations = {
  /** A release ends the lock, or a share of it, of any owner. */
  'owner check of releases': () => {
    edit(
      RELEASE,
      "return string.find(value, entry .. ' ', 1, true) == 1",
      "return string.find(value, '^v2%-[^!*]') ~= nil",
    );
    const own = 'removeShare(ARGV[4])';
    // An owner that leaves the queue has had no share.
    edit(RELEASE, own, `(${own} or not hasLeft and redis.call('ZPOPMIN', KEYS[4])[1] ~= nil)`);
  },
  /** Reports a renewal if the key is gone or another owner's. */
  'owner check of renewals': () => edit(EXTEND, 'return 0', 'return 1'),
  /** The holder trusts its lock until Redis reports the loss. */
  'local deadline': () => {
    const own = Object.getOwnPropertyDescriptor(Lock.prototype, 'deadline');
    if (own?.get === undefined) throw new Error('a lock has no deadline to be replaced');
    Object.defineProperty(Lock.prototype, 'deadline', { get: () => FOREVER });
  },
  /** A lock stays locked until it is released. */
  lease: () => {
    edit(HANDING_OFF, "token .. (about or ''), 'PX', leaseMs)", 'token)');
    edit(['acquire'], "token .. ARGV[7], 'PX', ARGV[5]", 'token');
    edit(['acquireMany'], "value, 'PX', ARGV[5]", 'value');
    edit(ACQUIRE, "redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[2]), ARGV[5]))", '');
    edit(EXTEND, "redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))", '');
  },
  /** A sharer shares the lock until it releases it. */
  'leases of sharers': () => edit([...HANDING_OFF, ...EXTEND], 'last - time)', `last - time + ${FOREVER})`),
  /** Exclusive requests do not wait for sharers. */
  'readers keep writers out': () =>
    edit(HANDING_OFF, 'return mode and mode ==', 'return not mode and holders.mode or mode and mode =='),
  /** A permit is always left. */
  'number of permits': () => edit(HANDING_OFF, "(mode == '*' or holders.count < tonumber(mode))", 'true'),
  /** An entry that may share the lock is granted before the entries ahead of it. */
  'one queue for all': () =>
    edit(
      ACQUIRE,
      "if fits(holders, mode) and redis.call('EXISTS', KEYS[3]) == 0 then",
      "if fits(holders, mode) and (holders.mode or redis.call('EXISTS', KEYS[3]) == 0) then\nredis.call('ZREM', KEYS[3], ARGV[4])",
    ),
  /** The lock is handed to the head of the queue, alive or not. */
  'skipping dead waiters': () => edit(HANDING_OFF, 'local listening = isListening(entry)', 'local listening = true'),
  /** A queued waiter relies on its message alone. */
  'retry while queued': () => {
    replace(Attempt, 'pauseAfter', (_, [held], own) => ((held as { queued: boolean }).queued ? FOREVER : own()));
    let isWoken = false;
    replace(KeyQueue, 'onWake', (_, _args, own) => {
      isWoken = true;
      const isOurs = own();
      isWoken = false;
      return isOurs;
    });
    // After a new subscription, too.
    replace(KeyQueue, 'askAgain', (_, _args, own) => (isWoken ? own() : undefined));
  },
  /** A lock that was handed off is closed for a full lease before its new holder has sent a request. */
  'short lease of handoffs': () =>
    edit(HANDING_OFF, 'grant(holders, entry, ARGV[1])', `grant(holders, entry, ${LONG_LEASE_MS})`),
  /** A message grants the lock to the owner that it names, without a request. */
  'messages only wake': () =>
    replace(KeyQueue, 'onWake', (queue, [owner], own) => {
      const attempt = Reflect.get(queue, 'attempt') as Attempt | undefined;
      if (attempt === undefined || attempt.owner !== owner) return own();
      const now = performance.now();
      attempt.sentAt = now;
      const granted: AcquireReply = { status: 'granted', token: Date.now() * 1_000, tokens: 1 };
      Reflect.apply(methodOf(queue, 'onGranted'), queue, [attempt, granted, now]);
      return true;
    }),
  /** Redis refuses a renewal if it is out of memory, as it refuses other writes. */
  'renewals without memory': () => {
    // SETNX may need memory, and does nothing to a key that exists.
    const refused = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SETNX', KEYS[1], '') end";
    for (const name of EXTEND) (scripts[name] as { lua: string }).lua = `${refused}\n${scripts[name].lua}`;
  },
  /** A connection that brings no replies stays. */
  'giving up silent connections': () => replace(RedisConnection, 'onLongSilence', () => undefined),
  /** A failed release is not repeated. */
  'repeated releases': () => replace(Releaser, 'mayRepeat', () => false),
  /** The release of an owner whose request got no reply is not sent again later. */
  'releases after lost requests': () =>
    replace(Releaser, 'onOver', (_, [pending], own) => {
      Reflect.set(pending as object, 'mayRunLate', false);
      return own(pending);
    }),
  /** Tokens are counted. The count is lost with the data. */
  'tokens by the clock': () => {
    const last = "local last = tonumber(redis.call('SET', KEYS[1], now, 'EX', '86400', 'GET') or nil)";
    edit(HANDING_OFF, last, `do return redis.call('INCRBY', KEYS[1], 17) end\n${last}`);
  },
  /** Tokens are the server time, whatever was granted before. */
  'tokens above the last': () =>
    edit(HANDING_OFF, 'if last and last + 17 > tonumber(now) and last < 9e15 then', 'if false then'),
  /** Leases are measured by a wall clock, which can be set. */
  'monotonic clock': () => replace(SystemClock, 'now', () => Date.now()),
  /** A renewal without a reply counts as refused. */
  'unknown is not lost': () =>
    replace(Renewer, 'onReply', (_, [lease, renewal, reply], own) =>
      own(lease, renewal, reply === 'unknown' ? 'lost' : reply),
    ),
  /** A lease counts from its reply. */
  'leases from before the request': () =>
    replace(KeyQueue, 'onGranted', (_, [attempt, granted, now], own) => {
      (attempt as Attempt).sentAt = now as number;
      return own(attempt, granted, now);
    }),
  /** A script that the server has forgotten is not sent again. */
  'scripts sent again': () => replace(RedisScript, 'runAgain', (_, [error]) => Promise.reject(error)),
  /** Replicas are asked, but their replies are ignored. */
  'acknowledgement of replicas': async () => {
    // It loads the scripts and takes their digests, so it is loaded after another ablation has edited them.
    const { ReplicaConnection } = await import('../../../lib/stores/token/replicated.store.js');
    replace(ReplicaConnection, 'failureOf', () => undefined);
  },
  /** A slot stays where it was at the start. */
  'following slots': () => {
    replace(ClusterTopology, 'sendAgain', (_, [, error]) => Promise.reject(error));
    replace(ClusterTopology, 'refresh', () => undefined);
  },
  /** A shutdown waits for no call and no hold. */
  'grace of a shutdown': () => {
    replace(LockEngine, 'settle', () => Promise.resolve());
    replace(LockEngine, 'drain', () => Promise.resolve());
  },
  /** A process whose grace is over ends without a release of its locks, as if no hook had run. */
  'release at shutdown': () => replace(LockEngine, 'loseAtShutdown', () => process.exit()),
  /** A ticket that is over takes the lock from any holder. */
  'owner check of tickets': () => {
    edit(['transfer'], 'if not isGiven and not (value and isOf(value, ARGV[1])) then', 'if not value then');
    edit(['transfer'], '#(isGiven and ARGV[2] or ARGV[1]) + 2', "#string.match(value, '^[^ ]*') + 2");
  },
  /** A lock has another token after it was detached. */
  'tokens of tickets': () =>
    edit(['transfer'], "token = ARGV[4] == '' and token or ARGV[4]", "token = string.format('%.0f', token + 1)"),
  /** A message of a release by force does not make the holder renew its lock. */
  'notices of forced releases': () => replace(KeyQueue, 'checkHeld', () => undefined),
  /** The resource accepts any token. The workload itself does this. */
  fence: () => undefined,
} satisfies Record<string, () => void | Promise<void>>;

/** Named by the defence that is switched off. */
export type AblationName = keyof typeof ablations;

export const ABLATIONS = Object.keys(ablations) as AblationName[];

/** Switches the defence off in this process, permanently. */
export async function switchOff(ablation: AblationName): Promise<void> {
  await ablations[ablation]();
}

type Method = (...args: readonly unknown[]) => unknown;
/** Replaces a method of `self`. `own` runs the original with the arguments of the call, or with others. */
type Replacement = (self: object, args: readonly unknown[], own: Method) => unknown;

function replace(owner: { readonly prototype: object; readonly name: string }, name: string, by: Replacement): void {
  const own = methodOf(owner.prototype, name);
  Reflect.set(owner.prototype, name, function (this: object, ...args: unknown[]) {
    return by(this, args, (...others) => Reflect.apply(own, this, others.length > 0 ? others : args));
  });
}

/** Returns a private method. One that was renamed is an error. */
function methodOf(self: object, name: string): Method {
  const method: unknown = Reflect.get(self, name);
  if (typeof method !== 'function') throw new Error(`${self.constructor.name} has no ${name} to be replaced`);
  return method as Method;
}

function edit(names: readonly (keyof typeof scripts)[], from: string, to: string): void {
  for (const name of names) {
    const script = scripts[name] as { lua: string };
    if (!script.lua.includes(from)) throw new Error(`the script ${name} has no "${from}" to be replaced`);
    script.lua = script.lua.replaceAll(from, to);
  }
}
