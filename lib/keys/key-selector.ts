import { LockConfigError } from '../common/errors.js';
import { escapeGlob } from './glob.js';
import { createKeyFactory, type KeyFactory, type KeyOptions } from './resource-key.js';

/** The keys of one module whose resources match a pattern. */
export interface KeySelector {
  /** A glob for Redis' SCAN that all these keys and their helper keys match. Other keys may also match it. */
  readonly pattern: string;
  /** Returns the resource of a key. Undefined for a key that is not selected. */
  readonly resourceOf: (key: string) => string | undefined;
}

/**
 * Returns the selector of a pattern over resources, such as `goods:*`. Without one, it selects all keys of the module.
 *
 * @throws LockConfigError if the module has a `key` function, which cannot be inverted.
 */
export type KeySelectorFactory = (match: string | undefined) => KeySelector;

/** Returns the function that selects keys by their resources. Does not throw for a `key` function yet. */
export function createKeySelectorFactory(options: KeyOptions): KeySelectorFactory {
  const { prefix, key } = options;
  if (key !== undefined) return refuseKeyFunction;
  const keyOf = createKeyFactory(options);
  return (match = '*') => ({
    pattern: patternOf(prefix, match),
    resourceOf(found) {
      const resource = resourceIn(found, prefix, keyOf);
      return resource !== undefined && matches(match, resource) ? resource : undefined;
    },
  });
}

/** Returns whether a text matches a pattern, in which each `*` stands for any text. */
function matches(pattern: string, text: string): boolean {
  const [start, ...parts] = pattern.split('*');
  const end = parts.pop();
  if (end === undefined) return text === start;
  if (!text.startsWith(start)) return false;
  let at = start.length;
  // The first place of each part is enough, because what follows can only have more room.
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at + end.length <= text.length && text.endsWith(end);
}

function refuseKeyFunction(): never {
  throw new LockConfigError(
    'list(): the module has a `key` function, and the resource of a key cannot be computed back; ' +
      'use `prefix` and `hashTag` instead.',
  );
}

/**
 * Returns a glob over keys. It may match too many keys, because each key found is checked against its resource. It has
 * few wildcards, whatever the caller's pattern has, because Redis 6 needs exponential time for many of them.
 */
function patternOf(prefix: string, match: string): string {
  // The hash tag may begin before the prefix, and end before any colon or at the end.
  const [literal] = match.split('*');
  const start = literal.split(':').slice(0, 2).map(escapeGlob).join('*:');
  return `*${escapeGlob(prefix)}${start}*`;
}

/** Returns the resource that the key is made from. Undefined if the module makes this key from no resource. */
function resourceIn(found: string, prefix: string, keyOf: KeyFactory): string | undefined {
  const close = found.indexOf('}');
  const candidates: string[] = [];
  if (found.startsWith(`{${prefix}`) && close !== -1) {
    candidates.push(found.slice(prefix.length + 1, close) + found.slice(close + 1));
  }
  if (found.startsWith(prefix)) candidates.push(found.slice(prefix.length));
  return candidates.find((resource) => makes(resource, found, keyOf));
}

function makes(resource: string, key: string, keyOf: KeyFactory): boolean {
  try {
    return keyOf(resource) === key;
  } catch {
    // The text is not a resource.
    return false;
  }
}
