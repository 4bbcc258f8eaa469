import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { Process } from './process.js';
import { ageOfPrompt } from './exchange.js';
import type { Scenario } from './scenario.js';
import type { World } from './world.js';

/** Moments, which are written relative to now. */
const MOMENTS = new Set([
  'at', 'sentAt', 'deadline', 'expiresAt', 'leaseOverAt', 'mayBeRepeatedUntil', 'since', 'until',
]); // prettier-ignore
/** Moments that are all alike once they have passed. */
const PAST_IS_ALIKE = new Set(['minHoldUntil', 'closedUntil']);
const TOKENS = new Set(['token', 'lastToken', 'lastHeld', 'lastExclusive']);
/**
 * Fields that no behaviour depends on within the model's bounds: what never changes, what only error messages use, the
 * place in a queue that is too short for longer pauses (`ahead`), and the counter of attempts, as owners are renamed.
 * All other fields count, and so do fields that the library gets later.
 */
const IGNORED = new Set([
  'deps', 'listener', 'user', 'forget', 'scenario', 'passing', 'health', 'store', 'options', 'time', 'listeners',
  'ahead', 'attempts', 'notes', 'process', 'instanceId', 'resource', 'key', 'keys', 'lastReply', 'reason', 'enteredAt', 'grantedAt',
]); // prettier-ignore

/** How a field is written. */
interface Field {
  /** Stands for its name. */
  readonly code: string;
  readonly kind: 'ignored' | 'token' | 'moment' | 'until' | 'other';
}

const fields = new Map<string, Field>();

function fieldOf(name: string): Field {
  const known = fields.get(name);
  if (known !== undefined) return known;
  const field: Field = { code: `;${fields.size}`, kind: kindOf(name) };
  fields.set(name, field);
  return field;
}

function kindOf(name: string): Field['kind'] {
  if (IGNORED.has(name)) return 'ignored';
  if (TOKENS.has(name)) return 'token';
  if (MOMENTS.has(name)) return 'moment';
  return PAST_IS_ALIKE.has(name) ? 'until' : 'other';
}

// Jest's contexts look globals up slowly, and this runs a million times.
const { isArray } = Array;
const [Bag, Table, Future, Failure] = [Set<unknown>, Map, Promise, Error];

/** Writes a part of a state. Equal parts are written alike. */
class Script {
  readonly owners: string[] = [];
  readonly tokens: number[] = [];
  /** Has no tokens. Only their order counts. */
  text = '';
  private readonly seen = new Table<object, number>();

  constructor(private readonly now: number) {}

  write(value: unknown, kind: Field['kind'] = 'other'): void {
    if (typeof value === 'number') this.number(value, kind);
    else if (typeof value === 'string') this.text += ` ${value.includes(':') ? this.owner(value) : value}`;
    else if (typeof value === 'function') this.text += ' f';
    else if (typeof value !== 'object' || value === null) this.text += ` ${String(value)}`;
    else this.object(value);
  }

  private number(value: number, kind: Field['kind']): void {
    if (kind === 'token') {
      this.tokens.push(value);
      this.text += ' t';
    } else if (kind === 'moment') this.text += `@${value - this.now}`;
    else if (kind === 'until') this.text += `@${value > this.now ? value - this.now : 0}`;
    else this.text += ` ${value}`;
  }

  private owner(owner: string): string {
    const known = this.owners.indexOf(owner);
    const name = known === -1 ? this.owners.push(owner) - 1 : known;
    return `o${name}`;
  }

  private object(object: object): void {
    const known = this.seen.get(object);
    if (known !== undefined) return void (this.text += `#${known}`);
    this.seen.set(object, this.seen.size);
    if (isArray(object)) this.list(object);
    else if (object instanceof Table || object instanceof Bag) this.list([...object.values()]);
    else if (!(object instanceof Future) && !(object instanceof Failure))
      this.fields(object as Record<string, unknown>);
  }

  private list(items: readonly unknown[]): void {
    this.text += '[';
    for (const item of items) this.write(item);
    this.text += ']';
  }

  private fields(object: Record<string, unknown>): void {
    this.text += '{';
    // A field that was never set equals one that is undefined.
    for (const name in object) {
      const value = object[name];
      if (value === undefined) continue;
      const { code, kind } = fieldOf(name);
      if (kind === 'ignored') continue;
      this.text += code;
      this.write(value, kind);
    }
    this.text += '}';
  }
}

/** A written process. It knows only its own owners. */
interface Part {
  /** Equal for equal texts. Processes are sorted by it. */
  readonly id: number;
  readonly tokens: readonly number[];
  readonly owners: readonly string[];
  readonly instanceId: string;
}

/** The numbers of the texts that were written for a scenario. They take less memory and time than the texts. */
const idsOf = new WeakMap<Scenario, Map<string, number>>();

function idOf(text: string, scenario: Scenario): number {
  let ids = idsOf.get(scenario);
  if (ids === undefined) idsOf.set(scenario, (ids = new Table<string, number>()));
  const known = ids.get(text);
  if (known !== undefined) return known;
  ids.set(text, ids.size);
  return ids.size - 1;
}

/**
 * Returns the same text for two states of a scenario from which the same can happen. Moments are relative to now,
 * owners are named in order of appearance, tokens are ranked, and processes are sorted, because they are
 * interchangeable.
 *
 * @param bounded whether the faults that are left count.
 */
export function fingerprint(world: World, bounded = true): string {
  const { holders, queue, time, left, lastHeld, lastExclusive, scenario } = world;
  const places = [...holders, ...queue].map(({ owner }) => owner);
  const rank = ({ instanceId }: Part): number => places.findIndex((owner) => instanceOf(owner) === instanceId);
  const parts = world.processes.map((process) => partOf(process, world));
  parts.sort((a, b) => a.id - b.id || rank(a) - rank(b) || difference(a.tokens, b.tokens));
  const server = new Script(time.now);
  if (bounded) server.write(left);
  server.write({ lastToken: world.table.lastToken, lastHeld, lastExclusive });
  for (const { expiresAt, token } of holders) server.write({ at: expiresAt, token });
  server.write(places.map((owner) => nameIn(parts, owner, places)));
  server.write(places.map((owner) => world.strays.includes(owner)));
  server.write(queue.map((entry) => ageOfPrompt(entry, time.now)));
  const ids = [...parts.map(({ id }) => id), idOf(server.text, scenario)];
  return `${ids.join()} ${ranksOf([...parts.flatMap(({ tokens }) => tokens), ...server.tokens]).join()}`;
}

function difference(a: readonly number[], b: readonly number[]): number {
  const first = a.findIndex((token, i) => token !== b[i]);
  return first === -1 ? 0 : a[first] - b[first];
}

/** Returns an owner's name: its process and its number there, or its place if its process has forgotten it. */
function nameIn(parts: readonly Part[], owner: string, places: readonly string[]): string {
  const process = parts.findIndex(({ instanceId }) => instanceId === instanceOf(owner));
  const known = parts[process].owners.indexOf(owner);
  return known === -1 ? `${process}.s${places.indexOf(owner)}` : `${process}.o${known}`;
}

function partOf(process: Process, world: World): Part {
  const { instanceId } = process;
  if (process.notes.written !== undefined) return process.notes.written as Part;
  const script = new Script(world.time.now);
  script.write(process);
  script.write(world.leftovers.filter((leftover) => world.processes[leftover.process] === process));
  const { text, tokens, owners } = script;
  const part: Part = Object.freeze({ id: idOf(text, world.scenario), tokens, owners, instanceId });
  process.note({ written: part });
  return part;
}

/** Returns how many different tokens are lower, for each of the tokens. */
function ranksOf(tokens: readonly number[]): readonly number[] {
  const sorted = [...new Bag(tokens)] as number[];
  sorted.sort((a, b) => a - b);
  return tokens.map((token) => sorted.indexOf(token));
}
