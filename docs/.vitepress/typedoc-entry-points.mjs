// A plugin of TypeDoc: names each module as users import it, `nestjs-redis-lock/quorum`.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Converter } from 'typedoc';

const { modules } = createRequire(import.meta.url)('../../tools/entry-points.cjs');
const root = join(import.meta.dirname, '../..');

/** By absolute path of the module: its specifier, `nestjs-redis-lock/quorum`. */
const specifiers = new Map(Object.entries(modules).map(([specifier, path]) => [join(root, path), specifier]));

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, (context) => {
    const { project } = context;
    for (const module of project.children ?? []) {
      const file = project.getSymbolIdFromReflection(module)?.fileName;
      const specifier = specifiers.get(String(file));
      if (specifier === undefined) throw new Error(`${module.name} (${file}) is not an entry point of the package.`);
      module.name = specifier;
    }
  });
}
