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
