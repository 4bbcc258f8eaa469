import { LockConfigError } from '../core/errors.js';
import { formatName, formatValue } from '../core/format-value.js';

/**
 * Checks that a method decorator was called as TypeScript's `experimentalDecorators` require. Without that option,
 * compilers pass the context of a standard decorator in place of the method's name.
 *
 * @throws LockConfigError that names the compiler options.
 */
export function refuseStandardDecorator(decorator: string, context: unknown): void {
  if (typeof context !== 'object' || context === null) return;
  throw new LockConfigError(
    `${nameIn(context)}: ${decorator} was called as a standard decorator, but Nest and this library use the older ` +
      `ones. Set "experimentalDecorators": true and "emitDecoratorMetadata": true in the compilerOptions of ` +
      `tsconfig.json. For swc, set jsc.transform.legacyDecorator and jsc.transform.decoratorMetadata.`,
  );
}

function nameIn(context: { readonly name?: unknown }): string {
  try {
    return typeof context.name === 'string' ? formatName(context.name) : formatValue(context.name);
  } catch {
    // An object that cannot be read is not a context, but the advice still applies.
    return 'a method';
  }
}
