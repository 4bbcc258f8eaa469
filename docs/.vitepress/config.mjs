import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitepress';
import { sidebar } from './navigation.mjs';
import { docs, repositoryLinks, repositoryUrl, root } from './repository.mjs';
import { renderForSearch } from './search.mjs';
import { headingAnchors, slugOf } from './slug.mjs';

export default defineConfig({
  title: 'nestjs-redis-lock',
  description: 'Distributed locks on Redis for NestJS',
  lang: 'en',
  // Where the site is served below another path, as by GitHub Pages: DOCS_BASE=/nestjs-redis-lock/
  base: process.env['DOCS_BASE'] ?? '/',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${process.env['DOCS_BASE'] ?? '/'}logo.svg` }]],
  metaChunk: true,
  // The README of the sample shop.
  ignoreDeadLinks: 'localhostLinks',
  markdown: {
    // The default themes have comments with little contrast.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-default' },
    // Otherwise, a name such as `replicas: { min: 1 }` loses its braces at the end of a cell.
    attrs: { disable: true },
    anchor: { slugify: slugOf },
    toc: { slugify: slugOf },
    config: (md) => {
      md.use(repositoryLinks).use(headingAnchors);
      // Vue removes a line break between two elements, so that their words would touch.
      md.renderer.rules.softbreak = () => ' ';
    },
  },
  vite: {
    // The charts of the benchmark and of the simulation are outside of docs/.
    server: { fs: { allow: [root] } },
    // The index of the search is one file, which the browser loads at the first search.
    build: { chunkSizeWarningLimit: 2_000 },
  },
  // Pages link to these files for download.
  buildEnd: ({ outDir }) => {
    for (const folder of ['monitoring', 'images'])
      cpSync(join(docs, folder), join(outDir, folder), { recursive: true });
  },
  themeConfig: {
    logo: '/logo.svg',
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        _render: renderForSearch,
        // VitePress sends the text of this function to browsers, so it uses nothing from here.
        miniSearch: { searchOptions: { boostDocument: (id) => (id.includes('/api/') ? 0.4 : 1) } },
      },
    },
    nav: [
      { text: 'Guide', link: '/quick-start', activeMatch: '^/(?!api/|repository/)' },
      { text: 'API', link: '/api/', activeMatch: '^/api/' },
      { text: 'Changelog', link: '/repository/changelog' },
    ],
    sidebar,
    ...(repositoryUrl !== undefined && {
      socialLinks: [{ icon: 'github', link: repositoryUrl }],
      editLink: { pattern: `${repositoryUrl}/edit/main/docs/:path`, text: 'Edit this page' },
    }),
    footer: { message: 'Released under the MIT licence.' },
  },
});
