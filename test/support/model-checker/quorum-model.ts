import { createHash } from 'node:crypto';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { Clock, Timer } from '../../../lib/core/time/clock.js';
import { scripts } from '../../../lib/stores/quorum/scripts.js';
import type { ClientListener, ServerClient } from '../../../lib/redis/client-port.js';

/** The time of the whole model, and its random numbers, which come from a seed. */
export class RandomClock extends ManualClock {
  constructor(private readonly next: () => number) {
    super();
  }

  override random(): number {
    return this.next();
  }

  /** Returns up to `maxMs` milliseconds in tenths, mostly few. */
  upTo(maxMs: number): number {
    return Math.round(this.next() ** 4 * maxMs * 10) / 10;
  }
}

/** One process's clock. No timer fires while the process is stopped. */
export class ProcessClock implements Clock {
  private stoppedUntil = 0;

  constructor(private readonly world: RandomClock) {}

  now(): number {
    return this.world.now();
  }

  wallTime(): number {
    return this.world.wallTime();
  }

  random(): number {
    return this.world.random();
  }

  schedule(delayMs: number, task: () => void): Timer {
    let timer = this.world.schedule(Math.max(0, delayMs), () => {
      const restMs = this.stoppedUntil - this.now();
      if (restMs > 0) timer = this.schedule(restMs, task);
      else task();
    });
    return { cancel: () => timer.cancel() };
  }

  stop(ms: number): void {
    this.stoppedUntil = Math.max(this.stoppedUntil, this.now() + ms);
  }
}

interface Entry {
  readonly value: string;
  readonly until: number;
}

type Reply = unknown;
interface Script {
  readonly keys: number;
  readonly lua: string;
}
/** Does what a script does. */
type Twin = (node: ModelNode, keys: readonly string[], args: readonly string[]) => Reply;

/** One master, with the data that its scripts use. */
export class ModelNode {
  /** The digests of the scripts that it has loaded. */
  readonly scripts = new Set<string>();
  /** The moment until which it runs no command. */
  hungUntil = 0;
  /** How far its clock is ahead, in milliseconds. Leases do not depend on it here. */
  aheadMs = 0;
  private readonly locks = new Map<string, Entry>();
  private readonly fences = new Map<string, number>();

  constructor(private readonly world: RandomClock) {}

  get micros(): number {
    return Math.floor((this.world.wallTime() + this.aheadMs) * 1000);
  }

  get(key: string): Entry | undefined {
    const entry = this.locks.get(key);
    if (entry === undefined || entry.until > this.world.now()) return entry;
    this.locks.delete(key);
    return undefined;
  }

  ttl(key: string): number {
    const entry = this.get(key);
    return entry === undefined ? -2 : entry.until - this.world.now();
  }

  set(key: string, value: string, ms: number): void {
    this.locks.set(key, { value, until: this.world.now() + ms });
  }

  lengthen(key: string, value: string, ms: number): void {
    this.set(key, value, Math.max(ms, this.ttl(key)));
  }

  delete(key: string): void {
    this.locks.delete(key);
  }

  fence(key: string): number {
    return this.fences.get(key) ?? 0;
  }

  raise(key: string, last: number): void {
    this.fences.set(key, Math.max(this.fence(key), last));
  }

  /** Reserves tokens. Returns the first. */
  reserve(key: string, tokens: number, proposed: number): number {
    const first = Math.max(this.fence(key) + 1, this.micros, proposed);
    this.raise(key, first + tokens - 1);
    return first;
  }
}

const isOf = ({ value }: Entry, owner: string): boolean => value.startsWith(`${owner} `);

/** What the scripts do, step by step. */
const TWINS: readonly (readonly [script: Script, twin: Twin])[] = [
  [
    scripts.acquire,
    (node, [key, fence], [owner, round, lease, deadline, tokens, proposed]) => {
      const now = String(node.micros);
      if (node.micros > Number(deadline)) return [-1, 0, now];
      const held = node.get(key);
      if (held !== undefined && !isOf(held, owner)) return [0, node.ttl(key), now, held.value];
      if (held !== undefined) {
        const [before, token] = held.value.slice(owner.length + 1).split(' ');
        if (Number(before) > Number(round)) return [-1, 0, now];
        node.lengthen(key, `${owner} ${round} ${token}`, Number(lease));
        return [2, token, now];
      }
      const first = node.reserve(fence, Number(tokens), Number(proposed));
      node.set(key, `${owner} ${round} ${first}`, Number(lease));
      return [1, String(first), now];
    },
  ],
  [
    scripts.writeBack,
    (node, [key, fence], [round, token, last]) => {
      node.raise(fence, Number(last));
      const held = node.get(key);
      if (held === undefined || !isOf(held, round)) return 0;
      node.set(key, `${round} ${token}`, node.ttl(key));
      return 1;
    },
  ],
  [
    scripts.release,
    (node, [key], [owner, closedForMs]) => {
      const held = node.get(key);
      if (held === undefined || !isOf(held, owner)) return 0;
      if (closedForMs === '0') node.delete(key);
      else node.set(key, held.value, Number(closedForMs));
      return 1;
    },
  ],
  [
    scripts.restore,
    (node, [key, fence], [value, last, lease, deadline]) => {
      if (node.micros > Number(deadline)) return 0;
      node.raise(fence, Number(last));
      if (node.get(key) !== undefined) return 0;
      node.set(key, value, Number(lease));
      return 1;
    },
  ],
  [
    scripts.extend,
    (node, [key, fence], [owner, lease]) => {
      const held = node.get(key);
      if (held === undefined) return -1;
      if (!isOf(held, owner)) return 0;
      node.lengthen(key, held.value, Number(lease));
      return [held.value, String(node.fence(fence))];
    },
  ],
];

const digestOf = (lua: string): string => createHash('sha1').update(lua).digest('hex');

const twins = new Map(TWINS.map(([{ lua }, twin]) => [digestOf(lua), twin]));

interface Command {
  readonly run: (node: ModelNode) => Reply;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** A process's connection to one master. Like ioredis, it sends unanswered commands again after a reconnect. */
export class ModelClient implements ServerClient {
  status = 'ready';
  readonly keyPrefix = '';
  readonly reconnects = true;
  readonly target: { readonly host: string };
  private readonly listeners = new Set<ClientListener>();
  private unanswered: Command[] = [];
  private connection = 0;
  private lastIn = 0;
  private lastOut = 0;

  constructor(
    private readonly world: RandomClock,
    private readonly process: ProcessClock,
    private readonly node: ModelNode,
    name: string,
  ) {
    this.target = { host: name };
  }

  run(command: 'eval' | 'evalsha', script: string, keys: readonly string[], args: readonly string[]): Promise<Reply> {
    const sha = command === 'eval' ? digestOf(script) : script;
    return this.command((node) => {
      if (command === 'eval') node.scripts.add(sha);
      if (!node.scripts.has(sha)) throw new Error('NOSCRIPT No matching script');
      return twins.get(sha)?.(node, [...keys], [...args]);
    });
  }

  /** Only TIME is sent. */
  send(): Promise<Reply> {
    return this.command(({ micros }) => [Math.floor(micros / 1e6), micros % 1e6]);
  }

  connect(): void {
    // It is connected.
  }

  open(): undefined {
    return undefined;
  }

  watch(listener: ClientListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** Closes the connection. It is open again after `ms`. */
  reset(ms: number): void {
    if (this.status !== 'ready') return;
    this.connection += 1;
    this.status = 'reconnecting';
    for (const { close } of this.listeners) close?.();
    this.process.schedule(ms, () => {
      this.status = 'ready';
      this.lastIn = this.lastOut = 0;
      for (const command of this.unanswered) this.deliver(command);
      for (const { ready } of this.listeners) ready?.();
    });
  }

  private command(run: Command['run']): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const command = { run, resolve, reject };
      this.unanswered.push(command);
      if (this.status === 'ready') this.deliver(command);
    });
  }

  private deliver(command: Command): void {
    const { connection, world } = this;
    this.lastIn = Math.max(this.lastIn, world.now() + world.upTo(80));
    const arrive = (): void => {
      const restMs = this.node.hungUntil - world.now();
      if (restMs > 0) world.schedule(restMs, arrive);
      // Commands of the old connection may arrive after commands of the new one.
      else if (connection === this.connection || world.random() < 0.5) this.execute(command, connection);
    };
    world.schedule(this.lastIn - world.now(), arrive);
  }

  private execute(command: Command, connection: number): void {
    const { world } = this;
    let settle: () => void;
    try {
      const reply = command.run(this.node);
      settle = () => command.resolve(reply);
    } catch (error) {
      settle = () => command.reject(error as Error);
    }
    this.lastOut = Math.max(this.lastOut, world.now() + world.upTo(80));
    this.process.schedule(this.lastOut - world.now(), () => {
      if (connection !== this.connection) return;
      this.unanswered = this.unanswered.filter((one) => one !== command);
      settle();
    });
  }
}
