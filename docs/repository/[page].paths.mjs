// The files of the repository that are pages of the site, too.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { docs, moveLinks, REPOSITORY_PAGES, root } from '../.vitepress/repository.mjs';

export default {
  watch: Object.values(REPOSITORY_PAGES).map((path) => join(root, path)),
  paths: () =>
    Object.entries(REPOSITORY_PAGES).map(([page, path]) => {
      const file = join(root, path);
      const text = moveLinks(readFileSync(file, 'utf8'), dirname(file), join(docs, 'repository'));
      return { params: { page }, content: text };
    }),
};
