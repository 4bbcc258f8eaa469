import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { before, it } from 'node:test';
import { Project } from './support.js';

const STOCK_TEST = `import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked, LockService } from 'nestjs-redis-lock';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';

@Injectable()
class StockService {
  private left = 10;
  constructor(private readonly locks: LockService) {}

  @Locked('goods:<id>')
  async sell(id: number): Promise<number> {
    const { left } = this;
    await this.locks.using(\`shelf:\${id}\`, () => undefined);
    this.left = left - 1;
    return this.left;
  }
}

declare const it: (title: string, test: () => Promise<void>) => void;
declare const expect: (value: unknown) => { toBe(expected: unknown): void };

it('sells one at a time', async () => {
  const imports = [RedisLockTestingModule.forRoot()];
  const module = await Test.createTestingModule({ imports, providers: [StockService] }).compile();
  await module.init();
  const stock = module.get(StockService);
  await Promise.all([stock.sell(1), stock.sell(1), stock.sell(1)]);
  expect(await stock.sell(1)).toBe(6);
  await module.close();
});
`;

let project: Project;

before(async () => {
  project = await Project.create('runners');
  await project.write('src/stock.test.ts', STOCK_TEST);
});

for (const path of ['runners/vitest.config.ts', '../configs/vitest-swc.config.ts']) {
  it(`has a configuration of Vitest: ${path}`, async () => {
    await project.use(path);
    assert.match(await project.run('vitest/vitest.mjs', 'run', '-c', basename(path)), /Tests +1 passed/);
  });
}

const jest = (config: string): string[] => ['--ci', '--rootDir', '.', '-c', config];

it('has a configuration of Jest with SWC', async () => {
  await project.use('runners/jest-swc.config.cjs');
  assert.match(await project.run('jest/bin/jest.js', ...jest('jest-swc.config.cjs')), /^Tests: +1 passed, 1 total$/m);
});

it('has a configuration of Jest with ts-jest', async () => {
  await project.use('../configs/ts-jest.config.cjs');
  const flags = ['--experimental-vm-modules', '--no-warnings', '../../node_modules/jest/bin/jest.js'];
  assert.match(await project.node(...flags, ...jest('ts-jest.config.cjs')), /^Tests: +1 passed, 1 total$/m);
});
