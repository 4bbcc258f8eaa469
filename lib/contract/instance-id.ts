import { randomBytes } from 'node:crypto';

/** The longest identity. Encoded, it has at most three times as many characters. */
export const LONGEST_IDENTITY = 80;

const IDENTITY = new RegExp(String.raw`^[\w.:@/-]{1,${LONGEST_IDENTITY}}$`);

/** 12 random bytes in base64url. */
const RANDOM_BYTES = 12;
const RANDOM_PART = /^-[\w-]{16}$/;
const RANDOM_PART_LENGTH = 17;
const ESCAPE = /_([\da-f]{2})?/g;

/** Returns whether a string can be an identity: letters, digits and `. _ : @ / -`. Empty: no identity. */
export function isIdentity(text: string): boolean {
  return text === '' || IDENTITY.test(text);
}

/**
 * Returns a new id for a module instance: its identity and a random part. Two instances, or two starts of one, never
 * have the same id.
 *
 * The id is part of every owner, of keys' values and of channels. So it has only letters, digits, `_` and `-`. Other
 * characters of the identity become `_` and two hexadecimal digits.
 */
export function newInstanceId(identity: string): string {
  const random = randomBytes(RANDOM_BYTES).toString('base64url');
  if (identity === '') return random;
  const encoded = identity.replace(/[^A-Za-z\d-]/g, (char) => `_${char.charCodeAt(0).toString(16)}`);
  return `${encoded}-${random}`;
}

/** Returns the id of the instance that an owner belongs to. */
export function instanceOf(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':'));
}

/**
 * Returns the identity in the id of a module instance. Undefined for an id without one, such as one from an older
 * version, and for any other text. So the result is short and has no characters that could forge a line of a log.
 */
export function identityOf(instanceId: string): string | undefined {
  const end = instanceId.length - RANDOM_PART_LENGTH;
  if (!RANDOM_PART.test(instanceId.slice(end))) return undefined;
  // An underscore without digits becomes a character that no identity has.
  const decode = (_: string, hex = '0'): string => String.fromCharCode(Number.parseInt(hex, 16));
  const identity = instanceId.slice(0, end).replace(ESCAPE, decode);
  return IDENTITY.test(identity) ? identity : undefined;
}
