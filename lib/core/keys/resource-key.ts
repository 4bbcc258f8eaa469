import { LockConfigError, LockKeyError } from '../errors.js';

/** How resources become Redis keys. */
export interface KeyOptions {
  /** Stands before every resource; may be empty. Not used where `key` is given. */
  readonly prefix: string;
  /**
   * What the hash tag, and so the slot, is taken from: the resource's first segment, so that a family of resources shares
   * a slot, or the whole resource. An explicit pair of braces in a resource wins over both.
   */
  readonly hashTag: 'family' | 'resource';
  /** Makes the key itself, to meet another system's keys exactly. */
  readonly key?: ((resource: string) => string) | undefined;
}

/** Makes the Redis key of a resource; throws {@link LockKeyError} where it makes no safe one. */
export type KeyFactory = (resource: string) => string;

const MAX_RESOURCE_BYTES = 1024;

/** Needs no closer look: a character takes four bytes of UTF-8 at most, so 256 of them fit 1,024 bytes. */
const PLAIN_RESOURCE = /^[^|{}\p{Cc}\p{Cs}]{1,256}$/u;

const FORBIDDEN = /[|\p{Cc}\p{Cs}]/u;

const ENCODE = 'Write values through resource`goods:${id}`, which encodes them';

/**
 * Makes the function that turns resources into keys: `goods:300` into `{lock_goods}:300`, `report` into `{lock_report}`,
 * `goods:{300}` into `lock_goods:{300}`; with `hashTag: 'resource'`, `goods:300` into `{lock_goods:300}`.
 *
 * @throws {LockConfigError} at once, where the prefix holds braces, `|` or control characters.
 */
export function createKeyFactory({ prefix, hashTag, key }: KeyOptions): KeyFactory {
  if (key) return (resource) => customKey(resource, key);
  if (FORBIDDEN.test(prefix) || /[{}]/.test(prefix)) {
    throw new LockConfigError(
      `prefix must hold no braces, no '|' and no control characters, but is ${JSON.stringify(prefix)}. ` +
        `Braces choose a Redis Cluster slot: put them into the resource, 'goods:{300}', or make the key with \`key\`.`,
    );
  }
  return (resource) => {
    checkResource(resource);
    if (resource.includes('{')) return prefix + resource;
    if (hashTag === 'resource') return `{${prefix}${resource}}`;
    const colon = resource.indexOf(':');
    if (colon === -1) return `{${prefix}${resource}}`;
    const tag = prefix + resource.slice(0, colon);
    // Redis takes an empty tag for none at all: lock and helper keys would land in different slots.
    if (tag === '')
      throw keyError(resource, `starts with ':', which leaves nothing for the hash tag. Name its family first`);
    return `{${tag}}${resource.slice(colon)}`;
  };
}

/**
 * Refuses what makes no safe key: anything but a string, the empty string, `|` (it ends helper keys), control characters,
 * unpaired surrogates (two of them would be one key in Redis), more than 1,024 bytes, and braces other than one balanced,
 * non-empty pair.
 *
 * @throws {LockKeyError} saying what is wrong and how to write it instead.
 */
export function checkResource(resource: string): void {
  if (typeof resource === 'string' && PLAIN_RESOURCE.test(resource)) return;
  if (typeof resource !== 'string' || resource === '') {
    throw new LockKeyError(
      `A resource is a string that is not empty, like 'goods:300', but ${format(resource)} was given.`,
    );
  }
  const bytes = Buffer.byteLength(resource);
  if (bytes > MAX_RESOURCE_BYTES) {
    const start = `${resource.slice(0, 60)}…`;
    throw keyError(start, `is ${bytes} bytes long, ${MAX_RESOURCE_BYTES} are allowed. Use a hash of its long part`);
  }
  const character = FORBIDDEN.exec(resource)?.[0];
  if (character === '|') throw keyError(resource, `holds '|', which ends the lock's own helper keys. ${ENCODE}`);
  if (character)
    throw keyError(resource, `holds ${JSON.stringify(character)}, a control character or half of one. ${ENCODE}`);
  const problem = braceProblem(resource);
  if (problem) throw keyError(resource, `has ${problem}. Braces are Redis hash tags, one pair at most. ${ENCODE}`);
}

/**
 * What is wrong with the braces of a resource, a key or a template, to be read after "has"; undefined where there are none
 * or one balanced pair with something in it.
 */
export function braceProblem(text: string): string | undefined {
  const open = text.indexOf('{');
  const close = text.indexOf('}');
  if (open === -1 && close === -1) return undefined;
  if (close === -1) return "a '{' that is never closed";
  if (open === -1 || close < open) return "a '}' without a '{' before it";
  if (close === open + 1) return "an empty pair of braces, '{}'";
  if (text.includes('{', open + 1) || text.includes('}', close + 1)) return 'more than one pair of braces';
  return undefined;
}

/**
 * Returns the hash tag of a key, the part that Redis Cluster computes the slot from: the text in the first pair of braces, or
 * the whole key if there is none or it is empty.
 */
export function hashTag(key: string): string {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  return open === -1 || close <= open + 1 ? key : key.slice(open + 1, close);
}

/**
 * Returns the key of one lock's helper, in the lock's slot: `{lock_goods}:300|queue`, and `{key}|queue` for a key without
 * braces. No resource has this key, because no resource contains `|`.
 */
export function helperKey(key: string, name: string): string {
  return `${key.includes('{') ? key : `{${key}}`}|${name}`;
}

/** Returns the key of the fence that all locks of one hash tag share: `{lock_goods}:300` has `{lock_goods}|fence`. */
export function fenceKey(key: string): string {
  return `{${hashTag(key)}}|fence`;
}

function customKey(resource: string, makeKey: (resource: string) => string): string {
  checkResource(resource);
  const key = callKeyFunction(resource, makeKey);
  if (typeof key !== 'string' || key === '') {
    throw keyError(
      resource,
      `got ${format(key)} from the \`key\` function, which has to return a string that is not empty`,
    );
  }
  const problem = key.includes('|') ? "a '|', which ends the lock's own helper keys" : braceProblem(key);
  if (problem) throw keyError(resource, `got ${format(key)} from the \`key\` function, a key that has ${problem}`);
  return key;
}

function callKeyFunction(resource: string, makeKey: (resource: string) => string): unknown {
  try {
    return makeKey(resource);
  } catch (cause) {
    throw new LockKeyError(`The \`key\` function failed for resource ${format(resource)}.`, { resource, cause });
  }
}

function keyError(resource: string, problem: string): LockKeyError {
  return new LockKeyError(`Resource ${format(resource)} ${problem}.`, { resource });
}

function format(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : `'${value.replace(/\p{Cc}/gu, '\uFFFD')}'`;
  if (typeof value === 'object' && value !== null) return value instanceof Promise ? 'a Promise' : 'an object';
  return typeof value === 'function' ? 'a function' : String(value);
}
