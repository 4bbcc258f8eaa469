import { Attempt } from '../../lib/core/acquire/attempt.js';
import { SystemClock } from '../../lib/core/time/clock.js';
import { AcquireLoop } from '../../lib/core/acquire/acquire-loop.js';
import { Grant } from '../../lib/core/lease/grant.js';
import { Releaser } from '../../lib/core/lease/releaser.js';
import { Watchdog } from '../../lib/core/lease/watchdog.js';
import { RedisScript } from '../../lib/redis/redis-script.js';
import { SlotMap } from '../../lib/redis/cluster/slot-map.js';
import { scripts } from '../../lib/stores/token/scripts.js';

/** The scripts that hand off. */
const HANDING_OFF = ['acquire', 'release'] as const;
/** Finite: the library compares with Infinity where there is no bound. */
const FOREVER = 1e12;
const LONG_LEASE_MS = 20_000;

/**
 * How each defence is switched off, in the process that runs a control and nowhere else: a script or a method is replaced
 * before the library is loaded. What is not there any more to be replaced is an error, so that no control stays whole
 * unnoticed.
 */
const switches = {
  /** Ends whosever lock it is, or whosever share of it. */
  'owner check of releases': () => {
    const any = "local ours = held and string.match(held, '^[^ ]+ ') or ARGV[1] .. ' '";
    edit('release', "local ours = ARGV[1] .. ' '", any);
    const own = "redis.pcall('ZREM', KEYS[3], ARGV[1])\nif shares and";
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
  /** A key that is gone or somebody else's is told to be renewed. */
  'owner check of renewals': () => edit('extend', 'return 0', 'return 1'),
  /** The holder believes in its lock until it is told otherwise. */
  'local deadline': () => {
    Object.defineProperty(Grant.prototype, 'deadline', {
      get: () => FOREVER,
      set: () => {
        // It stays as it is.
      },
    });
  },
  /** What is locked stays locked until it is released. */
  lease: () => {
    for (const script of HANDING_OFF) edit(script, ", 'PX', leaseMs)", ')');
    edit('acquire', "redis.call('PEXPIRE', KEYS[1], ARGV[2])", '');
    const renewal = "redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))";
    edit('extend', renewal, '');
  },
  /** Who shares the lock shares it until it is given back. */
  'leases of sharers': () => {
    for (const script of HANDING_OFF) edit(script, "redis.call('ZREMRANGEBYSCORE', KEYS[3], -shareTime(), '(0')", '');
  },
  /** Whoever wants the lock alone does not wait for those who share it. */
  'readers keep writers out': () => {
    for (const script of HANDING_OFF) edit(script, 'return mode == sharers.mode and', 'return not mode or');
  },
  /** There is always a permit left. */
  'number of permits': () => {
    for (const script of HANDING_OFF) edit(script, "(mode == '*' or sharers.count < tonumber(mode))", 'true');
  },
  /** Whoever may share the lock does, whoever waits for it. */
  'one line for all': () => {
    const barred = 'if not fits and not permitsDiffer(sharers, modeOf(entry)) then\n';
    edit('acquire', `${barred}return false`, `${barred}return true`);
  },
  /** The lock is handed to whoever is first in the queue, alive or not. */
  'passing over the dead': () => {
    for (const script of HANDING_OFF) edit(script, 'alive, token = counted[2] > 0,', 'alive, token = true,');
  },
  /** Who is in the queue relies on being told. */
  'safety net': () => {
    replace(Attempt, 'pauseAfter', (_, [held], own) => ((held as { queued: boolean }).queued ? FOREVER : own()));
    replace(AcquireLoop, 'retryNow', () => undefined);
  },
  /** A lock that was handed over is closed for a full lease before its new holder has said a word. */
  'short lease of hand-overs': () => {
    edit('acquire', 'handOff(sharers, ARGV[6]', `handOff(sharers, '${LONG_LEASE_MS}'`);
    edit('release', 'handOff(sharers, ARGV[4]', `handOff(sharers, '${LONG_LEASE_MS}'`);
  },
  /** An ask locks whenever it arrives. */
  'deadline of asks': () => edit('acquire', 'if now > ARGV[3] then', 'if false then'),
  /** A release that failed is not tried again. */
  'repeated releases': () =>
    replace(Releaser, 'repeat', (releaser) => Reflect.apply(Reflect.get(releaser, 'answered') as Method, releaser, [])),
  /** Nothing follows an ask that was given up. */
  compensation: () => replace(Releaser, 'releaseBehind', () => undefined),
  /** Tokens are counted, and the count is lost with the data. */
  'tokens by the clock': () => {
    for (const script of HANDING_OFF) {
      edit(script, 'local token, last = now, now', "local token, last = '1', '1'");
      edit(script, 'now + tokens - 1', '0 + tokens');
      edit(script, '>= tonumber(now) then', '>= 1 then');
    }
  },
  /** Tokens are the server's time, whatever was given before. */
  'tokens behind the last': () => {
    for (const script of HANDING_OFF)
      edit(script, 'if (tonumber(before or 0) or 0) >= tonumber(now) then', 'if false then');
  },
  /** Leases are measured by a clock that anybody may set. */
  'monotonic clock': () => replace(SystemClock, 'now', () => Date.now()),
  /** A renewal whose answer was lost on the way counts as refused. */
  'unknown is not lost': () =>
    replace(Watchdog, 'onDisconnected', (watchdog) => {
      const events = Reflect.get(watchdog, 'events') as { lost(grant: unknown, why: string): void };
      const unanswered = Reflect.get(watchdog, 'inFlight') as ReadonlyMap<unknown, unknown>;
      for (const grant of unanswered.keys()) events.lost(grant, 'no answer');
    }),
  /** A lease counts from when it is heard of. */
  'leases from before the ask': () =>
    replace(AcquireLoop, 'grantedByReply', (loop, [attempt], own) => {
      const { clock } = Reflect.get(loop, 'deps') as { clock: { now(): number } };
      (attempt as { sentAt: number }).sentAt = clock.now();
      return own();
    }),
  /** A server that has forgotten a script is not sent it again. */
  'scripts sent again': () => replace(RedisScript, 'runAgain', (_, [error]) => Promise.reject(error)),
  /** Replicas are asked, but their answers count for nothing. */
  'acknowledgement of replicas': async () => {
    // It brings the scripts along, whose digests are taken then: not before another defence has edited them.
    const { ReplicaAcks } = await import('../../lib/stores/token/replication/replica-acks.js');
    replace(ReplicaAcks, 'replicationError', () => Promise.resolve());
  },
  /** A slot is where it was at the start. */
  'following slots': () => {
    replace(SlotMap, 'nodeAfter', () => undefined);
    replace(SlotMap, 'refresh', () => undefined);
  },
  /** The resource takes any token: the workload's own business. */
  fence: () => undefined,
} satisfies Record<string, () => void | Promise<void>>;

/** What keeps a fault from doing harm. */
export type DefenceName = keyof typeof switches;

export const DEFENCES = Object.keys(switches) as DefenceName[];

export async function switchOff(defence: DefenceName): Promise<void> {
  await switches[defence]();
}

type Method = (...args: unknown[]) => unknown;
/** Stands in for a method of `self`; `own` runs that with the arguments it was called with. */
type Replacement = (self: object, args: readonly unknown[], own: () => unknown) => unknown;

function replace(owner: { readonly prototype: object; readonly name: string }, name: string, by: Replacement): void {
  const own = Reflect.get(owner.prototype, name) as Method | undefined;
  if (typeof own !== 'function') throw new Error(`${owner.name} has no ${name} to be replaced`);
  Reflect.set(owner.prototype, name, function (this: object, ...args: unknown[]) {
    return by(this, args, () => Reflect.apply(own, this, args));
  });
}

function edit(script: keyof typeof scripts, from: string, to: string): void {
  const entry = scripts[script] as { lua: string };
  if (!entry.lua.includes(from)) throw new Error(`the script ${script} has no "${from}" to be replaced`);
  entry.lua = entry.lua.replaceAll(from, to);
}
