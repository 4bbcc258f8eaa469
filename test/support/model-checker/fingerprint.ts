import { instanceOf } from '../../../lib/core/store/lock-store.js';
import { createHash } from 'node:crypto';
import type { Process } from './process.js';
import { ageOfPrompt } from './exchange.js';
import type { World } from './world.js';

/** Moments, which are written relative to now. */
const MOMENTS = new Set([
  'at', 'sentAt', 'deadline', 'leasedAt', 'expiresAt', 'leaseOverAt', 'mayBeRepeatedUntil', 'since', 'until',
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

// Jest's contexts look globals up slowly, and this runs a million times.
const { isArray } = Array;
const [Bag, Table, Future, Failure] = [Set<unknown>, Map, Promise, Error];

/** Texts, and tokens between them. Only the order of the tokens counts. */
type Pieces = (string | number)[];

/** Writes a part of a state. Equal parts are written alike. */
class Script {
  readonly pieces: Pieces = [];
  readonly owners: string[] = [];
  private text = '';
  private readonly seen = new Table<object, number>();

  constructor(private readonly now: number) {}

  write(value: unknown, name = ''): void {
    if (typeof value === 'number') this.number(value, name);
    else if (typeof value === 'string') this.text += ` ${value.includes(':') ? this.owner(value) : value}`;
    else if (typeof value === 'function') this.text += ' f';
    else if (typeof value !== 'object' || value === null) this.text += ` ${String(value)}`;
    else this.object(value);
  }

  end(): Pieces {
    this.pieces.push(this.text);
    return this.pieces;
  }

  private number(value: number, name: string): void {
    if (TOKENS.has(name)) {
      this.pieces.push(this.text, value);
      this.text = '';
    } else if (MOMENTS.has(name)) this.text += `@${value - this.now}`;
    else if (PAST_IS_ALIKE.has(name)) this.text += `@${Math.max(0, value - this.now)}`;
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
      if (object[name] === undefined || IGNORED.has(name)) continue;
      this.text += ` ${name}`;
      this.write(object[name], name);
    }
    this.text += '}';
  }
}

/** A written process. It knows only its own owners. */
interface Part {
  readonly pieces: Pieces;
  /** Without tokens. Processes are sorted by it. */
  readonly text: string;
  readonly tokens: readonly number[];
  readonly owners: readonly string[];
  readonly instanceId: string;
}

/**
 * Returns the same text for two states from which the same can happen. Moments are relative to now, owners are named in
 * order of appearance, tokens are ranked, and processes are sorted, because they are interchangeable.
 *
 * @param bounded whether the faults that are left count.
 */
export function fingerprint(world: World, bounded = true): string {
  const { holders, time, left, lastHeld, lastExclusive } = world;
  const places = [...holders, ...world.queue].map(({ owner }) => owner);
  const rank = ({ instanceId }: Part): number => places.findIndex((owner) => instanceOf(owner) === instanceId);
  const parts = world.processes.map((process) => partOf(process, world));
  parts.sort((a, b) => {
    if (a.text !== b.text) return a.text < b.text ? -1 : 1;
    return rank(a) - rank(b) || difference(a.tokens, b.tokens);
  });
  const server = new Script(time.now);
  if (bounded) server.write(left);
  server.write({ lastToken: world.table.lastToken, lastHeld, lastExclusive });
  for (const { expiresAt, token } of holders) server.write({ at: expiresAt, token });
  server.write(places.map((owner) => nameIn(parts, owner, places)));
  server.write(places.map((owner) => world.strays.includes(owner)));
  server.write(world.queue.map((entry) => ageOfPrompt(entry, time.now)));
  return createHash('md5')
    .update(ranked([...parts.map(({ pieces }) => pieces), server.end()]))
    .digest('base64');
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
  const pieces = script.end();
  const text = pieces.filter((piece) => typeof piece === 'string').join('');
  const tokens = pieces.filter((piece) => typeof piece === 'number');
  const part: Part = Object.freeze({ pieces, text, tokens, owners: script.owners, instanceId });
  process.note({ written: part });
  return part;
}

function ranked(texts: readonly Pieces[]): string {
  const tokens = texts
    .flatMap((pieces) => pieces.filter((piece) => typeof piece === 'number'))
    .toSorted((a, b) => a - b);
  const rank = new Table<number, string>();
  for (const token of tokens) if (!rank.has(token)) rank.set(token, ` t${rank.size} `);
  let text = '';
  for (const pieces of texts) {
    for (const piece of pieces) text += typeof piece === 'number' ? rank.get(piece) : piece;
  }
  return text;
}
