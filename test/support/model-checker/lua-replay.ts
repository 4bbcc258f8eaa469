import { Redis } from 'ioredis';
import { helperKey } from '../../../lib/core/keys/resource-key.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { QueueEntry } from '../../../lib/stores/memory/lock-table.js';
import { channelOf } from '../../../lib/stores/token/handoff/handoff-channels.js';
import { encodeEntry } from '../../../lib/stores/token/queue-entry.js';
import { decodeForced, decodeHandoff, type HandoffMessage } from '../../../lib/stores/token/handoff/handoff-message.js';
import { scripts } from '../../../lib/stores/token/scripts.js';
import type { Sample, SampleEntry, SampleHolder } from './exchange.js';

/**
 * Behind any server's clock in µs. So the last token that a grant reserves is the clock's time, as in the model.
 */
const LAST_TOKEN = 1.2e15;
const SECRET = 'of-the-replay';
const CHANNELS = 'nestjs-redis-lock:';
/** What the channels of instances begin with, with the wire version. */
const RECEIVED = channelOf(CHANNELS, '');
/** A millisecond of the model lasts ten seconds here, so that the replay's own duration does not matter. */
const SCALE = 10_000;
/** How long a key with sharers lives, and any key at most. See `share-time.lua`. */
const KEY_LIFE_MS = 1e9;
const LONGEST_LIFE_MS = 1e13;
const BATCH = 500;
const AN_HOUR_OF_MICROS = 3.6e9;
/** Writes into a queue that a waiter was prompted, that many steps of `prompted-at.lua` ago. */
const PROMPT = `local now = redis.call('TIME')
local steps = math.floor((now[1] * 1000000 + now[2]) / 62500) - ARGV[2]
return redis.call('ZINCRBY', KEYS[1], (steps % 1023 + 1) / 1024, ARGV[1])`;
const SCRIPTS = {
  acquire: scripts.acquire,
  release: scripts.release,
  extend: scripts.extend,
  forceRelease: scripts.forceRelease,
};

/** The messages that a lock was released by force, as `<instance> <key>`. */
interface Notices {
  readonly forced: string[];
}

/**
 * Runs the table's exchanges with the scripts on a real Redis. From the same state and with the same request, the
 * reply, the state after it and the messages must be the same. Instances that were subscribed are really subscribed.
 */
export class LuaReplay {
  private readonly client: Redis;
  private readonly subscriber: Redis;
  private readonly messages = new Map<string, HandoffMessage[]>();
  private readonly notices: Notices = { forced: [] };
  private readonly digests = new Map<string, string>();

  constructor(
    url: string,
    private readonly prefix: string,
  ) {
    this.client = new Redis(url);
    this.subscriber = new Redis(url);
  }

  /** Returns the differences, none if all is the same. */
  async run(samples: readonly Sample[]): Promise<string[]> {
    await this.open();
    const differences: string[] = [];
    for (let i = 0; i < samples.length; i += BATCH) {
      const batch = samples.slice(i, i + BATCH);
      const cases = batch.map((sample, j) => new Case(sample, this.prefix, i + j));
      differences.push(...(await this.runBatch(cases)));
    }
    return differences;
  }

  async close(): Promise<void> {
    await Promise.all([this.client.quit(), this.subscriber.quit()]);
  }

  private async open(): Promise<void> {
    for (const [verb, { lua }] of Object.entries(SCRIPTS)) {
      this.digests.set(verb, (await this.client.script('LOAD', lua)) as string);
    }
    this.subscriber.on('message', (channel: string, text: string) => {
      const instance = channel.slice(RECEIVED.length);
      const forcedKey = decodeForced(text);
      if (forcedKey !== undefined) this.notices.forced.push(`${instance} ${forcedKey}`);
      const message = decodeHandoff(text, SECRET);
      if (message === undefined) return;
      const owner = `${instance}:${message.attempt}`;
      this.messages.set(owner, [...(this.messages.get(owner) ?? []), message]);
    });
    const channels = Array.from('ABCDEFGH', (letter) => `${RECEIVED}${this.prefix}${letter}L`);
    await this.subscriber.subscribe(...channels);
  }

  private async runBatch(cases: readonly Case[]): Promise<string[]> {
    const pipeline = this.client.pipeline();
    const counts = cases.map((one) => {
      const commands = one.commands(this.digests);
      for (const [name, ...args] of commands) pipeline.call(name, ...args);
      return commands.length;
    });
    const replies = (await pipeline.exec()) ?? [];
    await this.receiveAll();
    let at = 0;
    return cases.flatMap((one, i) => {
      const own = replies.slice(at, (at += counts[i])).map(([error, reply]) => error?.message ?? reply);
      return one.differences(own, this.messages, this.notices);
    });
  }

  /** Waits for all messages. They arrive in the order in which they were published. */
  private async receiveAll(): Promise<void> {
    const last = `end-${Math.random()}`;
    const received = new Promise<void>((resolve) => {
      const listener = (_: string, message: string): void => {
        if (message !== last) return;
        this.subscriber.off('message', listener);
        resolve();
      };
      this.subscriber.on('message', listener);
    });
    await this.client.publish(`${RECEIVED}${this.prefix}AL`, last);
    await received;
  }
}

/** One exchange, with keys and owners of its own. */
class Case {
  private readonly keys: readonly [string, string, string];
  private readonly listening: ReadonlySet<string>;

  constructor(
    private readonly sample: Sample,
    private readonly prefix: string,
    private readonly number: number,
  ) {
    const key = `{${prefix}${number}}:300`;
    this.keys = [key, helperKey(key, 'fence'), helperKey(key, 'queue')];
    this.listening = new Set(sample.listening.map((owner) => owner[0]));
  }

  commands(digests: ReadonlyMap<string, string>): [string, ...string[]][] {
    const { before, verb } = this.sample;
    const [lock, fence, queue] = this.keys;
    const commands: [string, ...string[]][] = [['SET', fence, String(LAST_TOKEN)]];
    for (const holder of before.holders) {
      const { mode, ttlMs } = holder;
      const entry = this.entryOf(holder);
      if (mode === 'exclusive') commands.push(['SET', lock, this.valueOf(holder), 'PX', String(ttlMs * SCALE)]);
      else commands.push(['ZADD', queue, String(-(LONGEST_LIFE_MS - KEY_LIFE_MS + ttlMs * SCALE)), entry]);
    }
    if (before.queue.length > 0)
      commands.push(['ZADD', queue, ...before.queue.flatMap((entry, i) => [String(i + 1), this.entryOf(entry)])]);
    for (const entry of before.queue) {
      const { prompted } = entry;
      const steps = prompted === 'lately' ? '0' : '100';
      if (prompted !== undefined) commands.push(['EVAL', PROMPT, '1', queue, this.entryOf(entry), steps]);
    }
    // The lease of a sharer ends relative to what is left of the key's life.
    if (before.holders.some(({ mode }) => mode !== 'exclusive')) commands.push(['PEXPIRE', queue, String(KEY_LIFE_MS)]);
    const kept = this.sample.mode === 'exclusive' ? lock : queue;
    const keys = verb === 'extend' ? [kept] : this.keys;
    commands.push(['EVALSHA', digests.get(verb) as string, String(keys.length), ...keys, ...this.args()]);
    commands.push(
      ['GET', lock],
      ['PTTL', lock],
      ['ZRANGE', queue, '-inf', '(0', 'BYSCORE', 'WITHSCORES'],
      ['PTTL', queue],
    );
    const waiters = ['ZRANGE', queue, '(0', '+inf', 'BYSCORE', 'WITHSCORES'] as const;
    commands.push([...waiters], ['GET', fence], ['DEL', ...this.keys]);
    return commands;
  }

  /**
   * Returns the differences.
   *
   * @param replies the replies to all commands.
   * @param messages the handoffs by owner.
   * @param notices the other messages, of all exchanges.
   */
  differences(
    replies: readonly unknown[],
    messages: ReadonlyMap<string, readonly HandoffMessage[]>,
    notices: Notices,
  ): string[] {
    const [reply, value, ttl, sharers, left, queue, fence] = replies.slice(-8) as Found;
    const { after, handoffs } = this.sample;
    const last = this.lastTokenAfter(fence);
    const owners = [...this.sample.before.queue, this.sample, ...after.queue].map(({ owner }) => this.nameOf(owner));
    const received = [...new Set(owners)].flatMap((owner) =>
      (messages.get(owner) ?? []).map(({ grant }) => describe(owner, grant)),
    );
    const exclusive = after.holders.find(({ mode }) => mode === 'exclusive');
    const shared = after.holders.filter((holder) => holder !== exclusive);
    const expected = {
      reply: this.expectedReply(last),
      value: exclusive === undefined ? null : `${this.entryOf(exclusive)} ${last - exclusive.tokenAge}`,
      ttlMs: exclusive === undefined ? 0 : exclusive.ttlMs,
      sharers: shared.map((holder) => `${this.entryOf(holder)} ${holder.ttlMs}`).toSorted(),
      queue: after.queue.map((entry) => `${this.entryOf(entry)}${wasPrompted(entry) ? ' prompted' : ''}`),
      fence: String(last),
      messages: handoffs.map(({ owner, mode, granted, tokenAge, tokens, leaseMs }) => {
        const token = granted ? last - tokenAge : 0;
        const grantedAt = granted ? 1 : undefined;
        const grant = { token, tokens, grantedAt, leaseMs: leaseMs * SCALE, mode, key: this.keys[0] };
        return describe(this.nameOf(owner), grant);
      }),
      // An instance gets one message for all its shares.
      forced: [...new Set(this.noticesTo(this.sample.forced))].toSorted(),
    };
    const found = {
      reply: this.decoded(reply),
      value,
      ttlMs: value === null ? 0 : modelMs(ttl),
      sharers: pairs(sharers)
        .map(([entry, ends]) => `${entry} ${modelMs(-Number(ends) - (LONGEST_LIFE_MS - left))}`)
        .toSorted(),
      queue: pairs(queue).map(([entry, score]) => `${entry}${Number(score) % 1 === 0 ? '' : ' prompted'}`),
      fence,
      messages: received,
      forced: notices.forced.filter((message) => message.endsWith(` ${this.keys[0]}`)).toSorted(),
    };
    if (JSON.stringify(expected) === JSON.stringify(found)) return [];
    return [`${JSON.stringify(this.sample)}\n  table: ${JSON.stringify(expected)}\n  Redis: ${JSON.stringify(found)}`];
  }

  /** Other instances have no subscriber here. */
  private noticesTo(owners: readonly string[]): string[] {
    const subscribed = owners.filter((owner) => this.listening.has(owner[0]));
    return subscribed.map((owner) => `${instanceOf(this.nameOf(owner))} ${this.keys[0]}`);
  }

  /** What the caller of a release by force has read: the lock's value, or the entries of the sharers. */
  private heldBefore(): readonly [held: string, isShared: string] {
    const { holders } = this.sample.before;
    const [first] = holders;
    if (first.mode === 'exclusive') return [this.valueOf(first), '0'];
    return [holders.map((holder) => `${this.entryOf(holder)},`).join(''), '1'];
  }

  private valueOf(holder: SampleHolder): string {
    return `${this.entryOf(holder)} ${LAST_TOKEN - holder.tokenAge}`;
  }

  private args(): string[] {
    const { verb, leaseMs, closedForMs, handoffMs, tokens, queue, pastDeadline } = this.sample;
    const name = this.entryOf(this.sample);
    const [lease, closedFor, handoff] = [leaseMs, closedForMs, handoffMs].map((ms) => String(ms * SCALE));
    if (verb === 'extend') return [name, lease];
    if (verb === 'forceRelease') return [...this.heldBefore(), String(tokens), handoff, CHANNELS];
    if (verb === 'release') return [name, closedFor, String(tokens), handoff, CHANNELS];
    const deadline = pastDeadline ? '0' : String(Date.now() * 1_000 + AN_HOUR_OF_MICROS);
    return [name, lease, deadline, String(tokens), queue ? '1' : '0', handoff, CHANNELS];
  }

  /** Decodes a script's reply as `token.store.ts` does, in model time. */
  private decoded(reply: unknown): unknown {
    const { verb } = this.sample;
    if (verb === 'release') return reply === 1;
    if (verb === 'forceRelease') return Array.isArray(reply) && Number(reply[0]) === this.sample.before.holders.length;
    if (verb === 'extend') return reply === 1 ? 'renewed' : 'lost';
    // A reply with one token that is the server's time has that time once.
    if (typeof reply === 'string' && /^\d+$/.test(reply)) return { status: 'granted', token: Number(reply), tokens: 1 };
    if (!Array.isArray(reply)) return reply;
    // The client gives large numbers as text.
    const [status, value, , tokens = 1] = reply.map(Number);
    if (status === -1) return { status: 'expired' };
    if (status === -2) return { status: 'permits-mismatch', permits: value };
    if (status === 1 || status === 2) return { status: 'granted', token: value, tokens };
    const ahead = reply[6] === undefined ? undefined : { ahead: Number(reply[6]) };
    return { status: 'held', queued: status === 3, remainingMs: modelMs(value), ...ahead };
  }

  /** Returns the last token after the request: the server's time, if it has granted any. */
  private lastTokenAfter(fence: string): number {
    const isNow = Math.abs(Number(fence) - Date.now() * 1_000) < AN_HOUR_OF_MICROS;
    return this.sample.tokensSpent > 0 && isNow ? Number(fence) : LAST_TOKEN;
  }

  private expectedReply(last: number): unknown {
    const { reply } = this.sample;
    if (typeof reply !== 'object' || reply === null || !('token' in reply)) return reply;
    return { ...reply, token: last - (reply.token as number) };
  }

  private entryOf({ owner, mode }: QueueEntry): string {
    return encodeEntry({ owner: this.nameOf(owner), mode }, SECRET);
  }

  /** Returns `A:1` as an owner of this run. An instance id says whether the instance is subscribed. */
  private nameOf(owner: string): string {
    const [instance, attempt] = owner.split(':');
    const suffix = this.listening.has(instance) ? 'L' : 'D';
    return `${this.prefix}${instance}${suffix}:${this.number * 100 + Number(attempt)}`;
  }
}

type Entries = (string | string[])[];
type Found = [unknown, string | null, number, Entries, number, Entries, string, unknown];

function wasPrompted({ prompted }: SampleEntry): boolean {
  return prompted !== undefined;
}

/** The moment of the grant is the server's own. */
function describe(owner: string, grant: HandoffMessage['grant']): string {
  if (grant === undefined) return `${owner}: not proved`;
  const { token, tokens, grantedAt, leaseMs, mode, key } = grant;
  return `${owner} ${token} ${tokens} ${grantedAt === undefined ? 'not granted' : 'granted'} ${leaseMs} ${mode} ${key}`;
}

/** Flat in RESP2, nested in RESP3. */
function pairs(list: readonly (string | readonly string[])[]): [string, string][] {
  const flat = list.flat();
  return flat.flatMap((item, i) => (i % 2 === 0 ? [[item, flat[i + 1]]] : []));
}

/** Converts to model time, which has half milliseconds. The replay has taken less than that. */
function modelMs(ttlMs: number): number {
  return Math.ceil((2 * ttlMs) / SCALE) / 2;
}
