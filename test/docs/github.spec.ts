// What can be checked of .github without its linters, which `npm run lint:workflows` runs.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { root } from '../support/pages.js';

const WORKFLOWS = '.github/workflows';
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const workflows = readdirSync(join(root, WORKFLOWS)).map((name) => ({ name, text: read(join(WORKFLOWS, name)) }));
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

describe.each(workflows)('the workflow $name', ({ text }) => {
  it('pins every action to a commit', () => {
    const used = [...text.matchAll(/uses: (.*)$/gm)].map(([, action = '']) => action);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((action) => !/^[\w-]+\/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
  });

  it('keeps no token after the checkout', () => {
    const count = (pattern: RegExp): number => [...text.matchAll(pattern)].length;
    expect(count(/persist-credentials: false/g)).toBe(count(/actions\/checkout@/g));
  });

  it('runs scripts that exist', () => {
    const named = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, script = '']) => script);
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
  });

  it('names no repository', () => {
    expect(text).not.toMatch(/github\.com\/|github\.repository ==/);
  });
});

describe('the form for bugs', () => {
  const form = read('.github/ISSUE_TEMPLATE/bug.yml');

  it.each(['store', 'topology', 'versions', 'reproduction'])('requires: %s', (id) => {
    const [, field = ''] = form.split(`id: ${id}\n`);
    expect(field.split('\n  - type: ')[0]).toContain('required: true');
  });

  it('names every store', () => {
    const exported = /\b(?:token|quorum|redisson|timestamp|memory)\(\)/g;
    expect(new Set([...form.matchAll(exported)].map(([name]) => name)).size).toBe(5);
  });

  it('links to pages that exist', () => {
    const linked = [...form.matchAll(/\.\.\/blob\/main\/([^)#]+)/g)].map(([, path = '']) => path);
    expect(linked.length).toBeGreaterThan(0);
    for (const path of linked) expect(read(path)).not.toBe('');
  });
});

it('publishes with a token of its run only, from a job that may do nothing else', () => {
  const { text = '' } = workflows.find(({ name }) => name === 'release.yml') ?? {};
  expect(text).not.toMatch(/secrets\./);
  expect([...text.matchAll(/id-token: write/g)]).toHaveLength(1);
  const [, publish = ''] = /\n {2}publish:\n([^]*?)\n {2}\w+:\n/.exec(text) ?? [];
  expect(publish).toMatch(/contents: read\n[^]*id-token: write/);
  expect(publish).toContain('environment: npm');
});
