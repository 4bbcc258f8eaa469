// Runs of the real engine, step by step, as events that `accept.qnt` checks.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { instanceOf } from '../../lib/core/store/instance-id.js';
import { choices } from '../../test/support/model-checker/choices.js';
import { type Exchange, Samples } from '../../test/support/model-checker/exchange.js';
import type { Message, Reply, Request } from '../../test/support/model-checker/network.js';
import type { Process } from '../../test/support/model-checker/process.js';
import { BASE, KEY, type Scenario, type Variant } from '../../test/support/model-checker/scenario.js';
import { World } from '../../test/support/model-checker/world.js';
import { HERE, inFolder, quint } from './quint.js';

/** Everything that the model of the engine can do with exclusive locks. */
const SCENARIO: Scenario = {
  ...BASE,
  name: 'traces',
  processes: 3,
  acquisitions: 2,
  moves: 6,
  losses: ['message', 'duplicate', 'reset', 'subscription', 'half-open'],
  crashes: 1,
  leaves: 1,
  forces: 1,
  settlesWithinMs: 0,
};

/** The actions of `accept.qnt`, by their numbers. */
const ACTIONS = [
  '', 'arrives', 'asks', 'asksAgain', 'givesUp', 'leaves', 'runs', 'getsReply', 'receives', 'renews', 'ends', 'loses',
  'passesOn', 'releasesAgain', 'subscribes', 'elapses', 'crashes', 'losesMessage', 'losesRequest', 'losesConnection',
  'losesSubscription', 'forces', 'sees',
] as const; // prettier-ignore

type Action = (typeof ACTIONS)[number];
type Event = readonly number[];
const KINDS = ['acquire', 'extend', 'check', 'release', 'handoff', 'prompt', 'forced'];
const REPLIES = ['granted', 'held', 'expired', 'renewed', 'lost', 'released'];
const SUBSCRIPTIONS = ['open', 'closed', 'half-open'];

/** Records what the engine does. */
class Recorder {
  readonly events: Event[] = [];
  private readonly world: World;
  private exchange: Exchange | undefined;
  /** When each request was sent, and on which connection. */
  private readonly sent = new Map<Request, readonly number[]>();
  /** The owner of the hold that a message about a release by force is for. */
  private readonly forcedOwners = new Map<Message, string>();

  constructor(samples: Samples, variant: Variant | undefined) {
    const scenario = variant === undefined ? SCENARIO : { ...SCENARIO, variant };
    this.world = new World(scenario, (exchange) => {
      samples.add(exchange);
      this.exchange = exchange;
    });
  }

  /** Takes up to that many steps. `random` returns numbers below 1. */
  run(steps: number, random: () => number): readonly Event[] {
    for (let i = 0; i < steps; i += 1) {
      const options = choices(this.world);
      if (options.length === 0) break;
      // Time passes and faults happen seldom, so that most steps deliver something.
      const usual = options.filter(({ label }) => /runs|reply|receives a message$|arrive$|timer|ends/.test(label));
      const from = usual.length > 0 && random() < 0.8 ? usual : options;
      this.take(from[Math.floor(random() * from.length)]);
    }
    return this.events;
  }

  private take({ label, take }: { readonly label: string; readonly take: () => void }): void {
    const { world } = this;
    const before = world.processes.map((process) => stateOf(process));
    const leftovers = world.leftovers.flatMap(({ requests }) => requests);
    const { lastToken } = world.table;
    this.exchange = undefined;
    take();
    const index = Number(/^p(\d)/.exec(label)?.[1] ?? 0) - 1;
    const remaining = new Set(world.leftovers.flatMap(({ requests }) => requests));
    const gone = leftovers.filter((request) => !remaining.has(request));
    const clock = lastToken + SCENARIO.maxLocalPasses + 1;
    if (label.endsWith('ms pass')) this.add('elapses', ms(Number(/^[\d.]+/.exec(label)?.[0])));
    else if (label.endsWith('by force')) this.add('forces', clock);
    else if (/never runs/.test(label)) this.lose(gone);
    else if (/closed connection/.test(label)) this.runLeftover(gone[0], remaining, clock);
    else this.ofProcess(label, index, before[index], clock);
    this.noteForced();
    world.processes.forEach((process, i) => this.follow(process, i, before[i], label));
    this.see();
  }

  private ofProcess(label: string, index: number, before: State, clock: number): void {
    const i = index + 1;
    const process = this.world.processes[index];
    const [reply] = before.replies;
    const [message] = before.messages;
    const hold = process.holds.at(0);
    if (label.endsWith('runs on the server')) {
      const [request, ...others] = before.requests;
      this.add('runs', this.isTwice(request, others), clock, handoffOf(request), ...this.nameOf(request));
    } else if (label.endsWith('gets a reply')) {
      const others = before.replies.slice(1);
      const isTwice = others.some((other) => this.nameOfReply(other) === this.nameOfReply(reply));
      const isAwaited = !isTwice && this.isTwice(reply.request, before.requests) === 1;
      this.add('getsReply', isTwice ? 1 : isAwaited ? 2 : 0, ...this.nameOf(reply.request), replyOf(reply));
    } else if (/receives a message/.test(label)) {
      const isKept = label.endsWith('again') || this.isMessageTwice(message, before.messages.slice(1));
      this.add('receives', Number(isKept), ...this.messageOf(message));
    } else if (label.endsWith('loses a message')) {
      this.add(
        'losesMessage',
        Number(this.isMessageTwice(message, before.messages.slice(1))),
        ...this.messageOf(message),
      );
    } else if (label.endsWith('arrive')) this.add('arrives', i);
    else if (label.endsWith('abort')) this.add('leaves', i);
    else if (/ends its hold/.test(label)) this.add(hold?.grant.owner === before.owner ? 'passesOn' : 'ends', i);
    else if (/subscribes/.test(label)) this.add('subscribes', i);
    else if (/loses its connection/.test(label)) this.add('losesConnection', i);
    else if (/subscription/.test(label))
      this.add('losesSubscription', i, SUBSCRIPTIONS.indexOf(process.line.subscription));
    else if (/crashes/.test(label)) this.add('crashes', i, SUBSCRIPTIONS.indexOf(process.line.subscription));
    else if (/fires a timer/.test(label)) {
      if (before.owner !== undefined && hold === undefined) this.add('loses', i);
      else
        for (const { verb, body } of sentSince(process, before)) {
          if (verb !== 'release') continue;
          if (body.owner === before.pending) this.add('givesUp', i);
          else this.add('releasesAgain', i, attemptOf(body.owner));
        }
    } else throw new Error(`no action for ${label}`);
  }

  /** Adds the actions that follow in the same step. */
  private follow(process: Process, index: number, before: State, label: string): void {
    for (const request of sentSince(process, before)) {
      const { verb, body } = request;
      this.sent.set(request, [process.line.connection, ms(this.world.now())]);
      const attempt = attemptOf(body.owner);
      if (verb === 'acquire' && attempt > before.attempts) this.add('asks', index + 1);
      else if (verb === 'acquire' && !/subscribes|receives a message/.test(label)) this.add('asksAgain', index + 1);
      else if (kindOf(request) === 'extend') this.add('renews', index + 1);
    }
  }

  /** Notes the owners of the holds that messages about a release by force are for. */
  private noteForced(): void {
    for (const owner of this.exchange?.forced ?? []) {
      const { alive, line } = this.world.processes[indexOf(owner)];
      if (alive && line.subscription === 'open') this.forcedOwners.set(line.messages.at(-1) as Message, owner);
    }
  }

  private see(): void {
    const { world } = this;
    const [holder] = world.holders;
    const holding =
      holder === undefined ? [0, 0, 0, 0] : [...ownerOf(holder.owner), holder.token, ms(holder.expiresAt)];
    const instances = world.processes.flatMap((process, i) => {
      const { line, holds, callers } = process;
      const grant = holds.at(0)?.grant;
      const left = world.leftovers.filter((leftover) => leftover.process === i).flatMap(({ requests }) => requests);
      const hold = grant === undefined ? [0, 0, 0] : [attemptOf(grant.owner), grant.token ?? 0, ms(grant.deadline)];
      const requests = this.distinct([...left, ...line.requests]);
      const replies = new Set(line.replies.map((reply) => this.nameOfReply(reply))).size;
      const messages = new Set(line.messages.map((message) => this.messageOf(message).join())).size;
      return [...hold, callers.filter(({ leave }) => leave !== undefined).length, requests, replies, messages];
    });
    const queue = world.queue.flatMap(({ owner, promptedAt }) => {
      return [...ownerOf(owner), promptedAt === undefined ? -1 : ms(promptedAt)];
    });
    this.add('sees', ms(world.now()), world.table.lastToken, ...holding, ...instances, world.queue.length, ...queue);
  }

  private distinct(requests: readonly Request[]): number {
    return new Set(requests.map((request) => this.nameOf(request).join())).size;
  }

  private nameOfReply(reply: Reply): string {
    return [...this.nameOf(reply.request), replyOf(reply)].join();
  }

  private lose(requests: readonly Request[]): void {
    for (const name of new Set(requests.map((request) => this.nameOf(request).join())))
      this.add('losesRequest', 0, ...name.split(',').map(Number));
  }

  private runLeftover(request: Request, others: ReadonlySet<Request>, clock: number): void {
    this.add('runs', this.isTwice(request, [...others]), clock, handoffOf(request), ...this.nameOf(request));
  }

  private isTwice(request: Request, others: readonly Request[]): number {
    return Number(others.some((other) => this.nameOf(other).join() === this.nameOf(request).join()));
  }

  private isMessageTwice(message: Message, others: readonly Message[]): boolean {
    return others.some((other) => this.messageOf(other).join() === this.messageOf(message).join());
  }

  private nameOf(request: Request): number[] {
    const sent = this.sent.get(request);
    if (sent === undefined) throw new Error(`a ${request.verb} was not seen when it was sent`);
    return [KINDS.indexOf(kindOf(request)), ...ownerOf(request.body.owner), ...sent];
  }

  private messageOf(message: Message): number[] {
    if ('forced' in message) {
      return [KINDS.indexOf('forced'), ...ownerOf(this.forcedOwners.get(message) as string), 0];
    }
    return [KINDS.indexOf(message.granted ? 'handoff' : 'prompt'), ...ownerOf(message.owner), message.token];
  }

  private add(action: Action, ...args: readonly number[]): void {
    if (!args.every(Number.isInteger)) throw new Error(`${action} has arguments that are not integers: ${args.join()}`);
    this.events.push([ACTIONS.indexOf(action), ...args]);
  }
}

/** What is known of a process before a step. */
interface State {
  readonly requests: readonly Request[];
  readonly connection: number;
  readonly replies: Process['line']['replies'];
  readonly messages: readonly Message[];
  /** The owner that it holds the lock by. */
  readonly owner: string | undefined;
  /** The owner whose acquire request has no reply. */
  readonly pending: string | undefined;
  readonly attempts: number;
}

function stateOf({ line, holds, lines, attempts }: Process): State {
  return {
    requests: [...line.requests],
    connection: line.connection,
    replies: [...line.replies],
    messages: [...line.messages],
    owner: holds.at(0)?.grant.owner,
    pending: lines.attemptsAt(KEY).find(({ isPending }) => isPending)?.owner,
    attempts,
  };
}

function sentSince({ line }: Process, before: State): readonly Request[] {
  return line.requests.filter((request) => !before.requests.includes(request));
}

/** Returns the number of a reply in `accept.qnt`. */
function replyOf({ request, body }: Reply): number {
  const name = typeof body === 'object' ? body.status : request.verb === 'release' ? 'released' : String(body);
  return REPLIES.indexOf(name);
}

function kindOf({ verb, sender }: Request): string {
  return sender === 'a check' ? 'check' : verb;
}

/** Returns the lease with which a release hands the lock on. */
function handoffOf({ verb, body }: Request): number {
  return verb === 'release' ? ms(body.handoffMs) : 0;
}

function indexOf(owner: string): number {
  return Number(instanceOf(owner).slice(1)) - 1;
}

function attemptOf(owner: string): number {
  return Number(owner.slice(owner.indexOf(':') + 1));
}

function ownerOf(owner: string): [number, number] {
  return [indexOf(owner) + 1, attemptOf(owner)];
}

/** Converts milliseconds of the model, which has halves. */
function ms(value: number): number {
  return value * 2;
}

/** Returns numbers below 1 that depend on the seed only (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Writes an event as one number. See `arg` in `accept.qnt`. */
function packed(event: Event): string {
  const digits = event.map((number) => {
    if (number < -1 || number > 0xffffe) throw new Error(`${number} does not fit into an event`);
    return (number + 1).toString(16).padStart(5, '0');
  });
  return `0x${digits.toReversed().join('')}`;
}

/** Returns run tests of Quint, one for each trace. */
function testsOf(traces: readonly (readonly Event[])[]): string {
  const runs = traces.map((events, i) => {
    return `  pure val E${i} = [${events.map((event) => packed(event)).join(', ')}]
  run trace${i}Test = begin_.then(${events.length}.reps(n => replay(E${i}[n])))`;
  });
  return `module traces {\n  import accept.* from "./accept"\n${runs.join('\n')}\n}\n`;
}

const STEPS = 40;
const BATCH = 50;

/** Returns traces of the engine, or of a broken one. */
export function record(count: number, samples: Samples, variant?: Variant): readonly (readonly Event[])[] {
  return Array.from({ length: count }, (_, seed) => new Recorder(samples, variant).run(STEPS, randomOf(seed)));
}

/** Returns how many of the traces the specification accepts. Quint tests each of them. */
export async function acceptedOf(traces: readonly (readonly Event[])[]): Promise<number> {
  const [token, accept] = ['token.qnt', 'accept.qnt'].map((name) => readFileSync(join(HERE, name), 'utf8'));
  let accepted = 0;
  for (let i = 0; i < traces.length; i += BATCH) {
    const files = { 'token.qnt': token, 'accept.qnt': accept, 'traces.qnt': testsOf(traces.slice(i, i + BATCH)) };
    accepted += await inFolder(files, async (folder) => {
      const args = ['--backend', 'typescript', '--max-samples', '1', '--main', 'traces'];
      const { output } = await quint('test', join(folder, 'traces.qnt'), ...args);
      if (!/\d+ (?:passing|failed)/.test(output)) throw new Error(`Quint has failed:\n${output}`);
      return Number(/(\d+) passing/.exec(output)?.[1] ?? 0);
    });
  }
  return accepted;
}
