import { createHash } from 'node:crypto';
import { types } from 'node:util';
import { LockKeyError, type LockKeyPlaceholder } from '../common/errors.js';
import { kindOf, shortened } from '../common/format-value.js';
import { forgottenValue } from './resource-key.js';

/** The values of a placeholder: a string that is not empty, a finite number, a bigint or a boolean. */
export type KeyValue = string | number | bigint | boolean;

const MAX_VALUE_BYTES = 128;

/** How many resources one call may lock. */
const MAX_RESOURCES = 1_000;

/** Matches values that need no encoding: printable ASCII without `% : { } < > |`. Nearly all values match. */
const CLEAN = /^[!-$&-9;=?-z~]{1,128}$/;

/**
 * Matches characters to encode. `\p{Cs}` is half of a surrogate pair, which UTF-8 cannot encode. Two different ones
 * would be one key in Redis.
 */
const UNSAFE = /[%:{}<>|\s\p{Cc}\p{Cs}]/gu;

/** Matches characters that no encoded value contains, so that a literal with one of them ends the value before it. */
const SEPARATOR = /[:{}]/;

/**
 * Returns the text of one value inside a resource. Percent-encodes `% : { } < > |`, whitespace and control characters,
 * and the first letter of a value such as `null`, which a plain resource may not have as a segment.
 * Replaces a string longer than 128 bytes with `%sha256-` and its SHA-256 in hex, which is the encoding of no other
 * value. Different values, compared as strings, always have different texts.
 *
 * @param describe returns the place of the value, to begin a sentence with. Called for errors only.
 * @param placeholder the placeholder that takes the value, for {@link LockKeyError.placeholder}.
 * @throws {LockKeyError} if the value is not a {@link KeyValue}. The message names its kind, never the value.
 */
export function encodeValue(value: unknown, describe: () => string, placeholder?: LockKeyPlaceholder): string {
  if (typeof value === 'string' && value !== '') return encodeText(value);
  if (typeof value === 'number' && Number.isFinite(value)) return encodeText(String(value));
  if (typeof value === 'bigint' || typeof value === 'boolean') return encodeText(String(value));
  const allowed = 'a non-empty string, a finite number, a bigint or a boolean';
  const hint = hintFor(value, placeholder);
  throw new LockKeyError(`${describe()} is ${kindOf(value)}. A lock's key needs ${allowed}.${hint}`, { placeholder });
}

/**
 * Returns a resource from a tagged template: `` resource`goods:${id}` `` encodes its values like `<id>` in
 * `@Locked('goods:<id>')`, so both name the same lock.
 *
 * @throws {LockKeyError} if a value is not a string, number, bigint or boolean, is empty or is not finite. Also thrown
 * if two values have neither `:` nor a brace between them, because different values could give the same resource.
 *
 * @publicApi
 */
export function resource(literals: TemplateStringsArray, ...values: readonly KeyValue[]): string {
  // Without this, a function call in place of the tag would name one lock for all values.
  if (!areLiterals(literals, values.length + 1)) {
    throw new LockKeyError('resource is a tag of a template, written resource`goods:${id}`, not a function to call.');
  }
  let text = literals[0];
  for (const [index, value] of values.entries()) {
    const literal = literals[index + 1];
    if (index + 1 < values.length && !separates(literal)) {
      throw new LockKeyError(`${describeTag(literals, index)} and the next have ${ambiguity(literal)}`);
    }
    text += encodeValue(value, () => describeTag(literals, index)) + literal;
  }
  return text;
}

function areLiterals(literals: unknown, count: number): literals is readonly string[] {
  return isList(literals) && literals.length === count && literals.every((one) => typeof one === 'string');
}

/** Returns whether a value is a list. */
export function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/**
 * Returns a copy of the list of what is locked together. Holes are undefined.
 *
 * @param describe returns what the list is, to begin a sentence with. Called for errors only.
 * @param placeholder the placeholder whose value the list is, for {@link LockKeyError.placeholder}.
 * @throws LockKeyError if the list is empty or has more than 1,000 items.
 */
export function readList(
  list: readonly unknown[],
  describe: () => string,
  placeholder?: LockKeyPlaceholder,
): readonly unknown[] {
  const { length } = list;
  if (length > 0 && length <= MAX_RESOURCES) return [...list];
  const problem =
    length === 0
      ? 'is an empty array: there is nothing to lock'
      : `has ${length} items; expected 1 to ${MAX_RESOURCES}`;
  throw new LockKeyError(`${describe()} ${problem}.`, { placeholder });
}

/** Returns whether a literal between two values separates them, whatever the values are. */
export function separates(literal: string): boolean {
  return SEPARATOR.test(literal);
}

/** Returns the end of an error about two values with a literal between them that does not separate them. */
export function ambiguity(literal: string): string {
  const between = literal === '' ? 'nothing' : `only '${literal}'`;
  return `${between} between them, so different values could make one resource. Put a ':' there.`;
}

function hintFor(value: unknown, placeholder: LockKeyPlaceholder | undefined): string {
  if (types.isPromise(value)) return ' Await it before the call.';
  if (isList(value)) {
    if (placeholder === undefined || placeholder.spread) return '';
    return ` ${placeholder.text.replace('<', '<...')} locks each element.`;
  }
  if (typeof value !== 'object' || value === null) return '';
  // A value with a text of its own, such as an ObjectId, a UUID or a Date.
  if (value.toString !== Object.prototype.toString)
    return ' A function in place of the template can pass its text: (id) => resource`user:${String(id)}`.';
  return ' Name what identifies it, a property for example: <user.id>.';
}

function describeTag(literals: TemplateStringsArray, index: number): string {
  return `Value ${index + 1} of resource\`${shortened(literals.join('${…}'))}\``;
}

function encodeText(text: string): string {
  // A person may be called Null, and a plain resource with such a segment is refused.
  if (CLEAN.test(text)) return forgottenValue(text) === text ? encodeFirst(text) : text;
  const encoded = text.replace(UNSAFE, percentEncode);
  if (Buffer.byteLength(encoded) <= MAX_VALUE_BYTES) return encoded;
  // Without the mark, a value that is itself a hash would equal the encoding of another, long value.
  return `%sha256-${createHash('sha256').update(encoded).digest('hex')}`;
}

function encodeFirst(ascii: string): string {
  return `%${ascii.charCodeAt(0).toString(16).toUpperCase()}${ascii.slice(1)}`;
}

function percentEncode(character: string): string {
  if (!/\p{Cs}/u.test(character)) return encodeURIComponent(character);
  return `%u${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
