import { VERSION } from './version.js';

/**
 * Returns the object of that name. The ES module and the CommonJS module of one version share it, because a process may
 * load both.
 */
export function shared<T extends object>(name: string, create: () => T): T {
  const key = Symbol.for(`nestjs-redis-lock:${VERSION}:${name}`);
  const found = Reflect.get(globalThis, key) as T | undefined;
  if (found !== undefined) return found;
  const created = create();
  // Does nothing to a frozen global object. Each format then has an object of its own.
  Reflect.defineProperty(globalThis, key, { value: created });
  return created;
}

/** Returns the symbol that instances of a branded class have. */
export const brandOf = (name: string): symbol => Symbol.for(`nestjs-redis-lock.${name}`);

/**
 * Lets `instanceof` recognize the instances of a class from the ES module and the CommonJS module of this package. One
 * process may load both.
 *
 * @param name the same in both.
 */
export function branded(name: string) {
  const brand = brandOf(name);
  return (target: abstract new (...args: never[]) => object): void => {
    Object.defineProperty(target.prototype, brand, { value: true });
    Object.defineProperty(target, Symbol.hasInstance, {
      value(this: unknown, candidate: unknown): boolean {
        // A subclass inherits this method. Only the branded class itself is recognized by its brand.
        if (this !== target) return Function.prototype[Symbol.hasInstance].call(this, candidate);
        return typeof candidate === 'object' && candidate !== null && has(candidate, brand);
      },
    });
  };
}

/** Returns false for an object that cannot be read, such as a revoked Proxy, because anything can be thrown. */
function has(candidate: object, symbol: symbol): boolean {
  try {
    return symbol in candidate;
  } catch {
    return false;
  }
}
