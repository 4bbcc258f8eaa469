import type { ModulesContainer } from '@nestjs/core';
import { shared } from '../common/brand.js';
import { LockConfigError } from '../common/errors.js';
import type { ModuleExtras } from './module-definition.js';

/** The names of the module instances of each application. */
const names = shared('module-names', () => new WeakMap<ModulesContainer, Set<string>>());

/**
 * Registers a module instance of an application.
 *
 * @param modules the modules of the application.
 * @throws LockConfigError if another module instance of the application has the name.
 */
export function claimName(modules: ModulesContainer, { name, isGlobal }: ModuleExtras): void {
  const claimed = names.get(modules) ?? new Set();
  if (claimed.has(name)) throw new LockConfigError(importedTwice(modules, name, isGlobal));
  names.set(modules, claimed.add(name));
}

function importedTwice(modules: ModulesContainer, name: string, isGlobal: boolean): string {
  const isTest = [...modules.values()].some(({ metatype }) => metatype.name === 'RootTestModule');
  const problem =
    `This application imports RedisLockModule twice as '${name}'. Two modules make two LockServices: their nested ` +
    'calls would wait for each other, and their keys could differ.';
  const advice = isGlobal
    ? 'Import it once, in AppModule: it is global, so every module can inject LockService.'
    : 'With isGlobal: false, keep what forRoot() returns in one constant, and import that constant in each module.';
  const inTest = isTest ? ' In a test, import AppModule or RedisLockModule, not both.' : '';
  return `${problem} ${advice} For a second Redis or prefix, give one of them a name.${inTest}`;
}
