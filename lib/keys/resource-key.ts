import { LockConfigError, LockKeyError } from '../common/errors.js';
import { dropPromise, kindOf, shortened } from '../common/format-value.js';

/** The options that turn resources into Redis keys. */
export interface KeyOptions {
  /** The text before every resource. May be empty. Not used together with `key`. */
  readonly prefix: string;
  /**
   * The source of the hash tag, and so of the slot. `family`: the first segment of the resource, so that a family of
   * resources shares a slot. `resource`: the whole resource. A pair of braces in a resource takes precedence.
   */
  readonly hashTag: 'family' | 'resource';
  /** Returns the key of a resource, to match the keys of another system exactly. */
  readonly key?: ((resource: string) => string) | undefined;
}

/** Returns the Redis key of a resource. Throws {@link LockKeyError} if the resource cannot form a safe key. */
export type KeyFactory = (resource: string) => string;

const MAX_RESOURCE_BYTES = 1024;

/**
 * Matches resources that need no further check, unless they contain a forgotten value. A character takes at most four
 * bytes of UTF-8, so 256 of them fit in 1,024 bytes.
 */
const PLAIN_RESOURCE = /^[^|<>{}\p{Cc}\p{Cs}]{1,256}$/u;

const FORBIDDEN = /[|<>\p{Cc}\p{Cs}]/u;

/** Matches a segment that JavaScript writes for a value that is missing, not a number or an object. */
const FORGOTTEN_VALUE = /(?:^|[:{}])(undefined|null|NaN|\[object \w+\])(?=$|[:{}])/;

/** Returns the segment of a text that stands for a value which was forgotten: `undefined` in `goods:undefined`. */
export function forgottenValue(text: string): string | undefined {
  return FORGOTTEN_VALUE.exec(text)?.[1];
}

const ENCODE = 'Write values through resource`goods:${id}`, which encodes them';

/**
 * Returns the function that turns resources into keys: `goods:300` into `{lock_goods}:300`, `report` into
 * `{lock_report}`, `goods:{300}` into `lock_goods:{300}`. With `hashTag: 'resource'`, `goods:300` becomes
 * `{lock_goods:300}`.
 *
 * @throws {LockConfigError} if the prefix contains braces, `|` or control characters.
 */
export function createKeyFactory({ prefix, hashTag: tagged, key }: KeyOptions): KeyFactory {
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
    if (tagged === 'resource') return `{${prefix}${resource}}`;
    const colon = resource.indexOf(':');
    if (colon === -1) return `{${prefix}${resource}}`;
    const tag = prefix + resource.slice(0, colon);
    // Redis ignores an empty tag, so the lock and its helper keys would be in different slots.
    if (tag === '')
      throw keyError(resource, `starts with ':', which leaves nothing for the hash tag. Name its family first`);
    return `{${tag}}${resource.slice(colon)}`;
  };
}

/**
 * Refuses a resource that cannot form a safe key. It must be a non-empty string of at most 1,024 bytes without `|`,
 * `<`, `>`, control characters or unpaired surrogates, and without a segment such as `undefined`. Braces must be one
 * balanced, non-empty pair.
 *
 * @throws {LockKeyError} that names the problem and how to write the resource instead.
 */
export function checkResource(resource: string): void {
  if (typeof resource !== 'string' || resource === '') {
    throw new LockKeyError(
      `A resource is a string that is not empty, like 'goods:300', but ${format(resource)} was given.`,
    );
  }
  const forgotten = forgottenValue(resource);
  if (forgotten !== undefined) {
    throw keyError(resource, `has '${forgotten}' for a value. ${ENCODE} and refuses such a value`);
  }
  if (PLAIN_RESOURCE.test(resource)) return;
  const bytes = Buffer.byteLength(resource);
  if (bytes > MAX_RESOURCE_BYTES) {
    const start = `${resource.slice(0, 60)}…`;
    throw keyError(start, `is ${bytes} bytes long, ${MAX_RESOURCE_BYTES} are allowed. Use a hash of its long part`);
  }
  const character = FORBIDDEN.exec(resource)?.[0];
  if (character === '|') throw keyError(resource, `holds '|', which ends the lock's own helper keys. ${ENCODE}`);
  if (character === '<' || character === '>')
    throw keyError(resource, `holds '${character}': only templates of @Locked have placeholders. ${ENCODE}`);
  if (character)
    throw keyError(resource, `holds ${JSON.stringify(character)}, a control character or half of one. ${ENCODE}`);
  const problem = braceProblem(resource);
  if (problem) throw keyError(resource, `has ${problem}. Braces are Redis hash tags, one pair at most. ${ENCODE}`);
}

/**
 * Returns what is wrong with the braces of a resource, a key or a template, to be read after "has". Returns undefined
 * for no braces, and for one balanced pair that is not empty.
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
 * Returns the hash tag of a key, the part that Redis Cluster computes the slot from: the text in the first pair of
 * braces, or the whole key if it has no pair or an empty one.
 */
export function hashTag(key: string): string {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  return open === -1 || close <= open + 1 ? key : key.slice(open + 1, close);
}

/**
 * Returns the key of one lock's helper, in the lock's slot: `{lock_goods}:300|queue`, and `{key}||queue` for a key
 * without braces. No other key has this helper, and no resource has this key, because no key contains `|`.
 *
 * @param prefix what the client puts before each key. A key without braces is its own hash tag, with this prefix.
 */
export function helperKey(key: string, name: string, prefix = ''): string {
  return key.includes('{') ? `${key}|${name}` : `{${prefix}${key}}||${name}`;
}

/** Returns the key whose helper has this name. Undefined if no key has. See {@link helperKey}. */
export function keyOfHelper(helper: string, name: string, prefix = ''): string | undefined {
  const at = helper.indexOf('|');
  if (helper.slice(at) === `|${name}`) return helper.slice(0, at);
  const tagged = `{${prefix}`;
  const isTagged = helper.slice(at) === `||${name}` && helper.startsWith(tagged);
  return isTagged ? helper.slice(tagged.length, at - 1) : undefined;
}

function customKey(resource: string, makeKey: (resource: string) => string): string {
  checkResource(resource);
  const key = callKeyFunction(resource, makeKey);
  if (typeof key !== 'string' || key === '') {
    dropPromise(key);
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
  if (typeof value !== 'string' || value === '') return kindOf(value);
  return `'${shortened(value.replace(/\p{Cc}/gu, '\uFFFD'))}'`;
}
