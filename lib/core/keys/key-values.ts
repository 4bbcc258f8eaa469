import { createHash } from 'node:crypto';
import { LockKeyError } from '../errors.js';

/** What a placeholder takes: a string that is not empty, a finite number, a bigint or a boolean. */
export type KeyValue = string | number | bigint | boolean;

const MAX_VALUE_BYTES = 128;

/** Values that stand for themselves: printable ASCII without `% : { } < > |`. Nearly all are, and cost this one test. */
const CLEAN = /^[!-$&-9;=?-z~]{1,128}$/;

/** `\p{Cs}` is half of a surrogate pair, which UTF-8 cannot carry: two different ones would be one key in Redis. */
const UNSAFE = /[%:{}<>|\s\p{Cc}\p{Cs}]/gu;

/** Characters that no encoded value holds, so that a literal with one of them ends the value before it. */
const SEPARATOR = /[:{}]/;

/**
 * Writes a value into a resource so that it stays one value: percent-encoded where it holds `% : { } < > |`, whitespace or
 * control characters. What is longer than 128 bytes then is replaced by `%sha256-` and its SHA-256 in hex; no other value
 * is written so. Different values, compared as strings, never give the same text; it holds no `:`, braces or `|`.
 *
 * @param describe names the place of the value, to be read at the start of a sentence; called for an error only.
 * @throws {LockKeyError} for everything that is no {@link KeyValue}, saying what kind of thing was found.
 */
export function encodeValue(value: unknown, describe: () => string): string {
  if (typeof value === 'string' && value !== '') return encodeText(value);
  if (typeof value === 'number' && Number.isFinite(value)) return encodeText(String(value));
  if (typeof value === 'bigint' || typeof value === 'boolean') return encodeText(String(value));
  throw new LockKeyError(
    `${describe()} is ${kindOf(value)}. A lock's key needs a non-empty string, a finite number, a bigint or a boolean.${hintFor(value)}`,
  );
}

/**
 * Writes a resource by hand as safely as a template does: `` resource`goods:${id}` `` encodes its values as `<id>` is in
 * `@Locked('goods:<id>')`, so both mean the same lock.
 *
 * @throws {LockKeyError} for a value that is no string, number, bigint or boolean, or is empty or not finite; and for two
 * values without `:` or a brace between them, because different values could give the same resource.
 *
 * @publicApi
 */
export function resource(literals: TemplateStringsArray, ...values: readonly KeyValue[]): string {
  let text = literals[0] ?? '';
  for (const [index, value] of values.entries()) {
    const literal = literals[index + 1] ?? '';
    if (index + 1 < values.length && !separates(literal)) {
      throw new LockKeyError(`${describeTag(literals, index)} and the next have ${ambiguity(literal)}`);
    }
    text += encodeValue(value, () => describeTag(literals, index)) + literal;
  }
  return text;
}

/** Whether a literal between two values keeps them apart whatever they are. */
export function separates(literal: string): boolean {
  return SEPARATOR.test(literal);
}

/** The rest of a sentence about two values that {@link separates} says are not kept apart. */
export function ambiguity(literal: string): string {
  const between = literal === '' ? 'nothing' : `only '${literal}'`;
  return `${between} between them, so different values could make one resource. Put a ':' there.`;
}

/** What a value is, for an error message; never the value itself, which may be personal. */
export function kindOf(value: unknown): string {
  if (value === '') return 'an empty string';
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return 'an array';
  const className = (value.constructor as { name?: unknown } | undefined)?.name;
  if (typeof className !== 'string' || className === '') return 'an object without a class';
  return className === 'Object' ? 'a plain object' : `an object of class ${className}`;
}

function hintFor(value: unknown): string {
  if (value instanceof Promise) return ' Await it before the call.';
  if (typeof value === 'object' && value !== null)
    return ' Name what identifies it, a property for example: <user.id>.';
  return '';
}

function describeTag(literals: TemplateStringsArray, index: number): string {
  return `Value ${index + 1} of resource\`${literals.join('${…}')}\``;
}

function encodeText(text: string): string {
  if (CLEAN.test(text)) return text;
  const encoded = text.replace(UNSAFE, percentEncode);
  if (Buffer.byteLength(encoded) <= MAX_VALUE_BYTES) return encoded;
  // Without the mark, a value that is somebody else's hash would be written as somebody else's long value.
  return `%sha256-${createHash('sha256').update(encoded).digest('hex')}`;
}

function percentEncode(character: string): string {
  if (!/\p{Cs}/u.test(character)) return encodeURIComponent(character);
  return `%u${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
