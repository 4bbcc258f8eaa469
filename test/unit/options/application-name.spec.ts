import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { applicationName } from '../../../lib/options/application-name.js';

let root: string;

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'application-name-')));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const write = (file: string, text: string): void => {
  mkdirSync(join(root, file, '..'), { recursive: true });
  writeFileSync(join(root, file), text);
};

describe('the name of the application', () => {
  it('is that of the nearest package with a name', () => {
    write('package.json', '{ "name": "monorepo" }');
    write('apps/api/package.json', '{ "name": "@shop/api", "version": "1.0.0" }');
    write('apps/api/dist/package.json', '{ "type": "module" }');
    write('apps/jobs/package.json', 'no JSON');
    expect(applicationName(join(root, 'apps/api/dist/main.js'))).toBe('@shop/api');
    expect(applicationName(join(root, 'apps/jobs/main.js'))).toBe('monorepo');
  });

  it.each(['5', '""', '"a name"', '"evil\\n"', `"${'a'.repeat(215)}"`, '{}'])('is not known if it is %s', (name) => {
    write('package.json', `{ "name": ${name} }`);
    expect(applicationName(join(root, 'main.js'))).toBeUndefined();
  });

  it('is not known of a program that starts the application, or without a main file', () => {
    write('package.json', '{ "name": "shop" }');
    write('node_modules/jest/package.json', '{ "name": "jest" }');
    expect(applicationName(join(root, 'node_modules/jest/bin/jest.js'))).toBeUndefined();
    expect(applicationName(join(root, 'node_modules/.bin/runner'))).toBeUndefined();
    expect(applicationName('main.js')).toBeUndefined();
    // This test has been started by such a program.
    expect(applicationName()).toBeUndefined();
  });
});
