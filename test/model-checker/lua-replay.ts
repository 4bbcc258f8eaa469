import { Redis } from 'ioredis';
import { fenceKey, helperKey } from '../../lib/core/keys/resource-key.js';
import { luaScripts } from '../../lib/lua/index.js';
import type { QueueEntry } from '../../lib/stores/memory/lock-row.js';
import type { Sample } from './exchange.js';

/** Far ahead of any server's clock in µs, so that the next token is the last one's successor, as in the model. */
const LAST_TOKEN = 4e15;
/** Behind any server's clock, so that the next token is the clock's. */
const OLD_TOKEN = 1.2e15;
/** A millisecond of the model lasts ten seconds here: what the replay itself takes does not matter then. */
const SCALE = 10_000;
/** Of a key that shares are in, and of any: see `share-time.lua`. */
const KEY_LIFE_MS = 1e9;
const LONGEST_LIFE_MS = 1e13;
const BATCH = 500;
const AN_HOUR_OF_MICROS = 3.6e9;
const SCRIPTS = { acquire: luaScripts.tokenAsk, release: luaScripts.tokenRelease, extend: luaScripts.tokenExtend };

/**
 * Runs what the table was seen to do against the scripts on a real Redis: the same state before, the same request, and
 * then the reply, the state after and the messages have to be the same. Those that listened are really subscribed.
 */
export class LuaReplay {
  private readonly client: Redis;
  private readonly subscriber: Redis;
  private readonly messages = new Map<string, string[]>();
  private readonly digests = new Map<string, string>();

  constructor(
    url: string,
    private readonly prefix: string,
  ) {
    this.client = new Redis(url);
    this.subscriber = new Redis(url);
  }

  /** Answers what was different, and nothing if all was the same. */
  async run(samples: readonly Sample[]): Promise<string[]> {
    await this.open();
    const differences: string[] = [];
    for (let i = 0; i < samples.length; i += BATCH) {
      const batch = samples.slice(i, i + BATCH);
      const cases = [LAST_TOKEN, OLD_TOKEN].flatMap((lastToken, half) =>
        batch.map((sample, j) => new Case(sample, this.prefix, 2 * (i + j) + half, lastToken)),
      );
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
    this.subscriber.on('message', (_, message: string) => {
      const [owner] = message.split(' ');
      this.messages.set(owner, [...(this.messages.get(owner) ?? []), message]);
    });
    const channels = Array.from('ABCDEFGH', (letter) => `nestjs-redis-lock:${this.prefix}${letter}L`);
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
    await this.heardAll();
    let at = 0;
    return cases.flatMap((one, i) => {
      const own = replies.slice(at, (at += counts[i])).map(([error, reply]) => error?.message ?? reply);
      return one.differences(own, this.messages);
    });
  }

  /** Messages arrive in the order in which they were published: when the last one is there, all are. */
  private async heardAll(): Promise<void> {
    const last = `end-${Math.random()}`;
    const heard = new Promise<void>((resolve) => {
      const listener = (_: string, message: string): void => {
        if (message !== last) return;
        this.subscriber.off('message', listener);
        resolve();
      };
      this.subscriber.on('message', listener);
    });
    await this.client.publish(`nestjs-redis-lock:${this.prefix}AL`, last);
    await heard;
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
    private readonly lastToken: number,
  ) {
    const key = `{${prefix}${number}}:300`;
    this.keys = [key, fenceKey(key), helperKey(key, 'queue')];
    this.listening = new Set(sample.listening.map((owner) => owner[0]));
  }

  commands(digests: ReadonlyMap<string, string>): [string, ...string[]][] {
    const { before, verb } = this.sample;
    const [lock, fence, queue] = this.keys;
    const commands: [string, ...string[]][] = [['SET', fence, String(this.lastToken)]];
    for (const holder of before.holders) {
      const { mode, tokenAge, ttlMs } = holder;
      const claim = this.claimOf(holder);
      if (mode === 'exclusive')
        commands.push(['SET', lock, `${claim} ${this.lastToken - tokenAge}`, 'PX', String(ttlMs * SCALE)]);
      else commands.push(['ZADD', queue, String(-(LONGEST_LIFE_MS - KEY_LIFE_MS + ttlMs * SCALE)), claim]);
    }
    if (before.queue.length > 0)
      commands.push(['ZADD', queue, ...before.queue.flatMap((claim, i) => [String(i + 1), this.claimOf(claim)])]);
    // Those who share end by what is left of the key's life.
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
    commands.push(['ZRANGE', queue, '(0', '+inf', 'BYSCORE'], ['GET', fence], ['DEL', ...this.keys]);
    return commands;
  }

  /** @param replies to all of the commands; @param messages by owner. */
  differences(replies: readonly unknown[], messages: ReadonlyMap<string, readonly string[]>): string[] {
    const [reply, value, ttl, sharers, left, queue, fence] = replies.slice(-8) as Found;
    const { after, told } = this.sample;
    const last = this.lastTokenAfter(fence);
    const owners = [...this.sample.before.queue, this.sample, ...after.queue].map(({ owner }) => this.nameOf(owner));
    const heard = [...new Set(owners)].flatMap((owner) => messages.get(owner) ?? []);
    const alone = after.holders.find(({ mode }) => mode === 'exclusive');
    const together = after.holders.filter((holder) => holder !== alone);
    const expected = {
      reply: this.expectedReply(last),
      value: alone === undefined ? null : `${this.nameOf(alone.owner)} ${last - alone.tokenAge}`,
      ttlMs: alone === undefined ? 0 : alone.ttlMs,
      sharers: together.map((holder) => `${this.claimOf(holder)} ${holder.ttlMs}`).toSorted(),
      queue: after.queue.map((claim) => this.claimOf(claim)),
      fence: String(last),
      told: told.map((one) => {
        const [owner, mode = ''] = this.claimOf(one).split(' ');
        const [token, date] = one.granted ? [last - one.tokenAge, ''] : [0, '0 '];
        return `${owner} ${token} ${one.tokens} ${date}${one.leaseMs * SCALE} ${mode}`.trim();
      }),
    };
    const found = {
      reply: this.decoded(reply),
      value,
      ttlMs: value === null ? 0 : modelMs(ttl),
      sharers: pairs(sharers)
        .map(([claim, ends]) => `${claim} ${modelMs(-Number(ends) - (LONGEST_LIFE_MS - left))}`)
        .toSorted(),
      queue,
      fence,
      // The moment of the grant is the server's own.
      told: heard.map((message) =>
        message
          .split(' ')
          .filter((word, i) => i !== 3 || word === '0')
          .join(' '),
      ),
    };
    if (JSON.stringify(expected) === JSON.stringify(found)) return [];
    return [`${JSON.stringify(this.sample)}\n  table: ${JSON.stringify(expected)}\n  Redis: ${JSON.stringify(found)}`];
  }

  private args(): string[] {
    const { verb, leaseMs, keepMs, handoffMs, tokens, queue, pastDeadline } = this.sample;
    const name = this.claimOf(this.sample);
    const [lease, keep, handoff] = [leaseMs, keepMs, handoffMs].map((ms) => String(ms * SCALE));
    if (verb === 'extend') return [name, lease];
    if (verb === 'release') return [name, keep, String(tokens), handoff];
    const deadline = pastDeadline ? '0' : String(Date.now() * 1_000 + AN_HOUR_OF_MICROS);
    return [name, lease, deadline, String(tokens), queue ? '1' : '0', handoff];
  }

  /** As `token.store.ts` reads the scripts' replies, and in model time. */
  private decoded(reply: unknown): unknown {
    const { verb, mode } = this.sample;
    const tokens = mode === 'exclusive' ? this.sample.tokens : 1;
    if (verb === 'release') return reply === 1;
    if (verb === 'extend') return reply === 1 ? 'renewed' : 'lost';
    // A token that is the server's time is told once.
    if (typeof reply === 'string' && /^\d+$/.test(reply)) return { status: 'granted', token: Number(reply), tokens };
    if (!Array.isArray(reply)) return reply;
    // The client gives large numbers as text.
    const [status, value] = reply.map(Number);
    if (status === -1) return { status: 'expired' };
    if (status === -2) return { status: 'permits-mismatch', permits: value };
    if (status === 1 || status === 2) return { status: 'granted', token: value, tokens: status === 1 ? tokens : 1 };
    return { status: 'held', queued: status === 3, remainingMs: modelMs(value) };
  }

  /** Where the clock is ahead of the last token, tokens begin with its time: that is taken from what is found. */
  private lastTokenAfter(fence: string): number {
    const { tokensSpent } = this.sample;
    const successor = this.lastToken + tokensSpent;
    if (this.lastToken === LAST_TOKEN || tokensSpent === 0) return successor;
    const first = Number(fence) - tokensSpent + 1;
    return Math.abs(first - Date.now() * 1_000) < AN_HOUR_OF_MICROS ? Number(fence) : successor;
  }

  private expectedReply(last: number): unknown {
    const { reply } = this.sample;
    if (typeof reply !== 'object' || reply === null || !('token' in reply)) return reply;
    return { ...reply, token: last - (reply.token as number) };
  }

  /** As the scripts have it. */
  private claimOf({ owner, mode }: QueueEntry): string {
    const name = this.nameOf(owner);
    return mode === 'exclusive' ? name : `${name} ${mode === 'shared' ? '*' : mode}`;
  }

  /** `A:1` as this run's; whoever listens has another instance id than who does not. */
  private nameOf(owner: string): string {
    const [instance, ask] = owner.split(':');
    const ear = this.listening.has(instance) ? 'L' : 'D';
    return `${this.prefix}${instance}${ear}:${this.number * 100 + Number(ask)}`;
  }
}

type Found = [unknown, string | null, number, (string | string[])[], number, string[], string, unknown];

/** Flat in RESP2, nested in RESP3. */
function pairs(list: readonly (string | readonly string[])[]): [string, string][] {
  const flat = list.flat();
  return flat.flatMap((item, i) => (i % 2 === 0 ? [[item, flat[i + 1]]] : []));
}

/** Back to the model's time, which knows halves of milliseconds; less than that has passed on the way. */
function modelMs(ttlMs: number): number {
  return Math.ceil((2 * ttlMs) / SCALE) / 2;
}
