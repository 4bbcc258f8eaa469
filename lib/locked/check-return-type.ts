import { mayBeAwaitedByFramework } from './handlers.js';
import type { FoundMethod } from './providers.js';

/** The classes that the compiler emits for types with a name in lower case. */
const BUILT_IN: ReadonlySet<unknown> = new Set([String, Number, Boolean, BigInt, Symbol, Array, Function]);

/**
 * Returns a finding if a `@Locked` method declares a result that is neither a promise nor an Observable. Its callers
 * get a promise, which is truthy in every condition. Handlers are not reported, because Nest awaits their result.
 */
export function findSynchronousMethod(found: FoundMethod): string | undefined {
  const { key, method, owner } = found;
  const type: unknown = Reflect.getOwnMetadata('design:returntype', owner, key);
  if (!isSynchronous(type) || mayBeAwaitedByFramework(found)) return undefined;
  const { name } = type as { name: string };
  const shown = BUILT_IN.has(type) ? name.toLowerCase() : name;
  return (
    `${method.name} is @Locked and declares that it returns ${shown}, but a @Locked method returns a promise, which ` +
    `is true in every condition. Declare it async, with Promise<…> as its return type, and await its calls.`
  );
}

/** Returns false if the emitted type says nothing, as with interfaces, unions and `void`. */
function isSynchronous(type: unknown): boolean {
  if (typeof type !== 'function' || type === Object) return false;
  const members = type.prototype as { then?: unknown; subscribe?: unknown } | undefined;
  return typeof members?.then !== 'function' && typeof members?.subscribe !== 'function';
}
