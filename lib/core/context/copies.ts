import { brandClass } from '../brand.js';
import { OWN_FILE } from './call-site.js';
import { LockConfigError } from '../errors.js';
import { VERSION } from '../version.js';

/** One copy of this package in the process: the ES module, the CommonJS module, or another install. */
export interface Copy {
  readonly version: string;
  /** The folder that it was loaded from. */
  readonly path: string;
  /** Its class `LockService`, which is an injection token. Held weakly: a reload in development replaces the copy. */
  service?: WeakRef<object>;
}

/** What the copies of all versions in one realm know about each other. Later versions may only add to it. */
interface Registry {
  readonly copies: Set<Copy>;
  /** What the copies of one version share, by version. Its shape may change with each version. */
  readonly state: Map<string, Map<string, unknown>>;
  /** The copies whose module an application has imported, by the name of the module instance. */
  readonly applications: WeakMap<object, Map<string, Copy>>;
}

const REGISTRY = Symbol.for('nestjs-redis-lock:registry');

const registry = findRegistry();

// Read from a stack, because the two module systems have no common name for the folder.
const ownFolder = OWN_FILE?.replace(/([\\/]chunks)?[\\/][^\\/]+$/, '') ?? 'an unknown folder';

/** This copy. */
export const THIS_COPY: Copy = { version: VERSION, path: ownFolder };
registry.copies.add(THIS_COPY);

function findRegistry(): Registry {
  const found = Reflect.get(globalThis, REGISTRY) as Registry | undefined;
  if (found !== undefined) return found;
  const created: Registry = { copies: new Set(), state: new Map(), applications: new WeakMap() };
  // Does nothing to a frozen global object. This copy is then alone.
  Reflect.defineProperty(globalThis, REGISTRY, { value: created });
  return created;
}

/**
 * Returns a value that all copies of this version share: the one that the first of them created. Copies of other
 * versions have a value of their own, because it is unknown what they expect.
 */
export function shared<T>(name: string, create: () => T): T {
  let state = registry.state.get(VERSION);
  if (state === undefined) registry.state.set(VERSION, (state = new Map<string, unknown>()));
  if (!state.has(name)) state.set(name, create());
  return state.get(name) as T;
}

/** Lets `instanceof` recognize instances of a class from all copies of this version. */
export function sharedClass(name: string) {
  return (target: abstract new (...args: never[]) => object): void => {
    brandClass(target, Symbol.for(`nestjs-redis-lock:${VERSION}:${name}`));
  };
}

/** Lets other copies find this copy's class `LockService`. */
export function offerService(service: object): void {
  THIS_COPY.service = new WeakRef(service);
}

/** Returns the classes `LockService` of all other copies, each with its copy. */
export function otherServices(): readonly (readonly [service: object, copy: Copy])[] {
  const found: (readonly [object, Copy])[] = [];
  for (const copy of registry.copies) {
    if (copy === THIS_COPY || copy.service === undefined) continue;
    const service = copy.service.deref();
    // A reload in development has replaced the copy.
    if (service === undefined) registry.copies.delete(copy);
    else found.push([service, copy]);
  }
  return found;
}

/**
 * Registers that an application has imported the module of this copy.
 *
 * @param application the container of its modules.
 * @param name the name of the module instance.
 * @throws LockConfigError if the application has imported the module of another version, or another copy's by the same
 * name.
 */
export function joinApplication(application: object, name: string): void {
  const joined = registry.applications.get(application) ?? new Map<string, Copy>();
  for (const other of joined.values()) if (other.version !== VERSION) throw otherVersion(other);
  const other = joined.get(name);
  if (other !== undefined && other !== THIS_COPY) {
    throw new LockConfigError(
      `The application imports the RedisLockModule '${name}' of two copies of nestjs-redis-lock ${VERSION}: ` +
        `${other.path} and ${THIS_COPY.path}. To each of them, a lock that the other holds is held by others, ` +
        `even inside the work that holds it. Import the module of one copy only. ` +
        `Decorators and LockService of the other copy then use it. ${ONE_COPY}`,
    );
  }
  registry.applications.set(application, joined.set(name, THIS_COPY));
}

const ONE_COPY = '`npm ls nestjs-redis-lock` shows what installs a second copy, and `npm dedupe` often removes it.';

/** Returns the error for a copy of another version, which this one cannot use. */
export function otherVersion(other: Pick<Copy, 'version' | 'path'>): LockConfigError {
  return new LockConfigError(
    `Two versions of nestjs-redis-lock cannot work together in one application: ${describe(other)}, ` +
      `and ${describe(THIS_COPY)}. Use one version for the module, the decorators and LockService. ${ONE_COPY}`,
  );
}

function describe({ version, path }: Pick<Copy, 'version' | 'path'>): string {
  return `${version} in ${path}`;
}
