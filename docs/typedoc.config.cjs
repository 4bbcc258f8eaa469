// The API reference of the site: one Markdown page for each entry point, in docs/api/.
const { OptionDefaults } = require('typedoc');
const { modules } = require('../tools/entry-points.cjs');

/** @type {import('typedoc').TypeDocOptions & Record<string, unknown>} */
module.exports = {
  entryPoints: Object.values(modules).map((path) => `../${path}`),
  tsconfig: '../tsconfig.build.json',
  plugin: ['typedoc-plugin-markdown', './.vitepress/typedoc-entry-points.mjs'],
  out: 'api',
  router: 'module',
  readme: 'none',
  name: 'API reference',
  // `npm run typecheck` finds errors of types.
  skipErrorChecking: true,
  // Tags of the sources that TypeDoc does not know.
  blockTags: [...OptionDefaults.blockTags, '@publicApi', '@minimum', '@maximum'],
  excludeInternal: true,
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  // Of typedoc-plugin-markdown.
  entryFileName: 'index',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  sanitizeComments: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  pageTitleTemplates: { index: '{projectName}', module: '{name}', member: '{name}' },
};
