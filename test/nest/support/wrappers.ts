type AnyMethod = (this: unknown, ...args: unknown[]) => unknown;

/** Returns a decorator that replaces a method by a function of its own, without the metadata, as many libraries do. */
export function Foreign(): MethodDecorator {
  return (_target, _key, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as AnyMethod;
    descriptor.value = async function foreign(this: unknown, ...args: unknown[]) {
      return original.apply(this, args);
    };
  };
}

/** What a decorator does around a method of `T`. */
// oxlint-disable-next-line no-explicit-any -- the class under test
type Apply = (self: any, call: () => Promise<unknown>) => unknown;

/** Returns a decorator that replaces a method and copies its metadata, as `@Transactional` of nestjs-cls does. */
export function Copying(apply: Apply = (_self, call) => call()): MethodDecorator {
  return (_target, _key, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as AnyMethod;
    const wrapped = new Proxy(original, {
      apply: (method, self, args: unknown[]) => apply(self, async () => method.apply(self, args)),
    });
    for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, original), wrapped);
    }
    descriptor.value = wrapped;
  };
}

/** Returns a decorator that replaces a method by a Proxy without metadata. */
export function Proxied(): MethodDecorator {
  return (_target, _key, descriptor: PropertyDescriptor) => {
    descriptor.value = new Proxy(descriptor.value as AnyMethod, {});
  };
}

/** Returns a decorator that puts a bound function behind an accessor, as decorators for callbacks do. */
export function Bound(): MethodDecorator {
  return (_target, _key, { value }: PropertyDescriptor) => {
    const original = value as AnyMethod;
    const get = function (this: unknown): unknown {
      return original.bind(this);
    };
    return { get, configurable: true, enumerable: false } as never;
  };
}
