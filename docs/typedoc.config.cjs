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
  readme: './.vitepress/api-reference.md',
  name: 'API reference',
  // `npm run typecheck` finds errors of types.
  skipErrorChecking: true,
  // Tags of the sources that TypeDoc does not know. Nearly all names have `@publicApi`, so the pages do not show it.
  blockTags: [...OptionDefaults.blockTags, '@minimum', '@maximum'],
  modifierTags: [...OptionDefaults.modifierTags, '@publicApi'],
  excludeTags: [...OptionDefaults.excludeTags, '@publicApi'],
  excludeInternal: true,
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  treatWarningsAsErrors: true,
  // Of typedoc-plugin-markdown.
  entryFileName: 'index',
  mergeReadme: true,
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  // VitePress takes `{#anchor}` from a heading. Left to itself, it counts headings of one name in another way.
  useCustomAnchors: true,
  tableColumnSettings: { hideModifiers: true, hideInherited: true, hideOverrides: true },
  sanitizeComments: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  pageTitleTemplates: { index: '{projectName}', module: '{name}', member: '{name}' },
};
