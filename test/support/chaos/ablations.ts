import { Attempt } from '../../../lib/core/acquire/attempt.js';
import { SystemClock } from '../../../lib/core/time/clock.js';
import { AcquireLoop } from '../../../lib/core/acquire/acquire-loop.js';
import { LockEngine } from '../../../lib/engine/lock-engine.js';
import { Grant } from '../../../lib/core/lease/grant.js';
import { LeaseManager } from '../../../lib/core/lease/lease-manager.js';
import { Releaser } from '../../../lib/core/lease/releaser.js';
import { Watchdog } from '../../../lib/core/lease/watchdog.js';
import { Lifecycle } from '../../../lib/core/lifecycle.js';
import { RedisScript } from '../../../lib/redis/redis-script.js';
import { SlotMap } from '../../../lib/redis/cluster/slot-map.js';
import type { StoreListener } from '../../../lib/core/store/lock-store.js';
import type { RedisConnection } from '../../../lib/redis/redis-connection.js';
import { TickBatches } from '../../../lib/stores/token/tick-batches.js';
import type { QueuedOwners } from '../../../lib/stores/token/queued-owners.js';
import { scripts } from '../../../lib/stores/token/scripts.js';

/** The scripts that hand off. */
const HANDING_OFF = ['acquire', 'release'] as const;
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
    const any = "local ours = held and string.match(held, '^[^ ]+ ') or entry .. ' '";
    edit('release', "local ours = entry .. ' '", any);
    const own = "redis.pcall('ZREM', KEYS[3], entry)\nif shares and";
    const first = "redis.call('ZRANGE', KEYS[3], 0, 0)[1]";
    edit(
      'release',
      own,
      `if mode and sharers.count > 0 and not shares then
      shares = redis.call('ZREM', KEYS[3], ${first})
    end
    ${own}`,
    );
  },
  /** Reports a renewal if the key is gone or another owner's. */
  'owner check of renewals': () => edit('extend', 'return 0', 'return 1'),
  /** The holder trusts its lock until Redis reports the loss. */
  'local deadline': () => {
    Object.defineProperty(Grant.prototype, 'deadline', {
      get: () => FOREVER,
      set: () => {
        // The deadline stays as it is.
      },
    });
  },
  /** A lock stays locked until it is released. */
  lease: () => {
    for (const script of HANDING_OFF) edit(script, ", 'PX', leaseMs)", ')');
    edit('acquire', "redis.call('PEXPIRE', KEYS[1], ARGV[2])", '');
    const renewal = "redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))";
    edit('extend', renewal, '');
  },
  /** A sharer shares the lock until it releases it. */
  'leases of sharers': () => {
    for (const script of HANDING_OFF) edit(script, "redis.call('ZREMRANGEBYSCORE', KEYS[3], -shareTime(), '(0')", '');
  },
  /** Exclusive requests do not wait for sharers. */
  'readers keep writers out': () => {
    for (const script of HANDING_OFF) edit(script, 'return mode == sharers.mode and', 'return not mode or');
  },
  /** A permit is always left. */
  'number of permits': () => {
    for (const script of HANDING_OFF) edit(script, "(mode == '*' or sharers.count < tonumber(mode))", 'true');
  },
  /** An entry that may share the lock is granted before the entries ahead of it. */
  'one queue for all': () => {
    const blocked = 'if not fits and not permitsDiffer(sharers, modeOf(entry)) then\n';
    edit('acquire', `${blocked}return false`, `${blocked}return true`);
  },
  /** The lock is handed to the head of the queue, alive or not. */
  'skipping dead waiters': () => {
    const alive = 'local alive = counted[2] > 0 and not isSilent(first[2], now)';
    for (const script of HANDING_OFF) edit(script, alive, 'local alive = true');
  },
  /** A queued waiter relies on its message alone. */
  'retry while queued': () => {
    replace(Attempt, 'pauseAfter', (_, [held], own) => ((held as { queued: boolean }).queued ? FOREVER : own()));
    replace(AcquireLoop, 'retryNow', () => undefined);
  },
  /** A lock that was handed off is closed for a full lease before its new holder has sent a request. */
  'short lease of handoffs': () => {
    edit('acquire', 'handOff(sharers, channels, ARGV[6]', `handOff(sharers, channels, '${LONG_LEASE_MS}'`);
    edit('release', 'sharded = ARGV[6] }, ARGV[4]', `sharded = ARGV[6] }, '${LONG_LEASE_MS}'`);
  },
  /** A handoff counts from when it was received, however old it is. */
  'age of handoffs': () =>
    replace(AcquireLoop, 'onHandoff', (loop, [handoff], own) => {
      const { clock } = fieldOf(loop, 'deps') as { clock: { now(): number } };
      (handoff as { grantedAt: number }).grantedAt = clock.now();
      return own();
    }),
  /** Redis refuses a renewal if it is out of memory, as it refuses other writes. */
  'renewals without memory': () => {
    // SETNX may need memory, and does nothing to a key that exists.
    const extend = scripts.extend as { lua: string };
    extend.lua = `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SETNX', KEYS[1], '') end\n${extend.lua}`;
  },
  /** A request locks whenever it arrives. */
  'deadline of requests': () => edit('acquire', 'if now > ARGV[3] then', 'if false then'),
  /** A failed release is not repeated. */
  'repeated releases': () =>
    replace(Releaser, 'repeat', (releaser) => Reflect.apply(fieldOf(releaser, 'answered') as Method, releaser, [])),
  /** No release follows a request that was given up. */
  compensation: () => replace(Releaser, 'releaseBehind', () => undefined),
  /** Tokens are counted. The count is lost with the data. */
  'tokens by the clock': () => {
    const next = "tokenAfter(redis.call('SET', KEYS[2], now, 'EX', '86400', 'GET'), tokens, now)";
    for (const script of HANDING_OFF) edit(script, next, "redis.call('INCR', KEYS[2]), 1");
    // A free lock is granted without that function.
    edit('acquire', 'local isFree = ', 'local isFree = false and ');
  },
  /** Tokens are the server time, whatever was granted before. */
  'tokens above the last': () => {
    for (const script of HANDING_OFF) {
      edit(script, 'if last >= tonumber(now) then', 'if false then');
      edit(script, 'math.max(last + 1, now - tokens + 1)', 'now - tokens + 1');
    }
  },
  /** Leases are measured by a wall clock, which can be set. */
  'monotonic clock': () => replace(SystemClock, 'now', () => Date.now()),
  /** A renewal without a reply counts as refused. */
  'unknown is not lost': () =>
    replace(Watchdog, 'onDisconnected', (watchdog) => {
      const events = fieldOf(watchdog, 'events') as { lost(grant: Grant, why: string): void };
      const ownerships = (watchdog as unknown as Watchdog).ownerships();
      const unanswered = ownerships.filter(({ renewal }) => renewal !== undefined);
      for (const grant of unanswered.flatMap(({ grants }) => grants)) events.lost(grant, 'no reply');
    }),
  /** A lease counts from its reply. */
  'leases from before the request': () =>
    replace(Attempt, 'grantOf', (attempt, [, now], own) => {
      (attempt as unknown as Attempt).sentAt = now as number;
      return own();
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
    replace(SlotMap, 'nodeAfter', () => undefined);
    replace(SlotMap, 'refresh', () => undefined);
  },
  /** A handoff needs no proof that a script wrote it. */
  'proof of handoffs': async () => {
    // Loads the scripts, which other ablations edit before that.
    const { TokenStore } = await import('../../../lib/stores/token/token.store.js');
    replace(TokenStore, 'onMessage', (store, [message, from, listener]) => {
      const [, attempt, token, tokens, grantedAt, leaseMs] = String(message).split(' ');
      const { queued } = store as unknown as { queued: QueuedOwners };
      const engine = listener as StoreListener;
      const ownership = queued.get(`${engine.instanceId}:${attempt}`);
      if (ownership === undefined) return undefined;
      const counted = { token: Number(token), tokens: Number(tokens), leaseMs: Number(leaseMs) };
      const at = (from as RedisConnection).localLowerBound(Number(grantedAt));
      return engine.onHandoff({ ...ownership, ...counted, grantedAt: at });
    });
  },
  /** A shutdown waits for no call and no hold. */
  'grace of a shutdown': () => {
    replace(Lifecycle, 'settle', () => Promise.resolve());
    replace(Lifecycle, 'drain', () => Promise.resolve());
  },
  /** A process that shuts down ends without a release of its locks, as if no hook had run. */
  'release at shutdown': () => replace(LockEngine, 'end', () => process.exit()),
  /** A message of a release by force does not make the holder ask for its lock. */
  'notices of forced releases': () => replace(LeaseManager, 'checkForce', () => Promise.resolve()),
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

type Method = (...args: unknown[]) => unknown;
/** Replaces a method of `self`. `own` runs the original with the arguments of the call. */
type Replacement = (self: object, args: readonly unknown[], own: () => unknown) => unknown;

function replace(owner: { readonly prototype: object; readonly name: string }, name: string, by: Replacement): void {
  const own = Reflect.get(owner.prototype, name) as Method | undefined;
  if (typeof own !== 'function') throw new Error(`${owner.name} has no ${name} to be replaced`);
  Reflect.set(owner.prototype, name, function (this: object, ...args: unknown[]) {
    return by(this, args, () => Reflect.apply(own, this, args));
  });
}

/** Returns a private field. A field that was renamed is an error, in the process that needs it. */
function fieldOf(self: object, name: string): unknown {
  const value: unknown = Reflect.get(self, name);
  if (value === undefined) throw new Error(`${self.constructor.name} has no ${name}`);
  return value;
}

/** Edits a script for one lock. From now on no request is sent by a script for several locks, which is not edited. */
function edit(script: keyof typeof scripts, from: string, to: string): void {
  replace(TickBatches, 'add', (batches, _, own) => {
    const reply = own();
    Reflect.apply(Reflect.get(batches, 'flush') as Method, batches, []);
    return reply;
  });
  const entry = scripts[script] as { lua: string };
  if (!entry.lua.includes(from)) throw new Error(`the script ${script} has no "${from}" to be replaced`);
  entry.lua = entry.lua.replaceAll(from, to);
}
