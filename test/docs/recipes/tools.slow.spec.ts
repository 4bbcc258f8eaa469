// Installs the packed tarball beside bundlers and test runners, and runs the configurations of the recipes there.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import { Consumer, packTarball } from '../../packaging/consumer.js';
import { root } from '../../support/pages.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';

const MAIN = `import { main } from './stock.service.js';\nawait main();\n`;

const UNNAMED = `import { Locked } from 'nestjs-redis-lock';
class Stock { @Locked('goods:<goodsNumber>') async sell(goodsNumber: number): Promise<number> { return goodsNumber; } }
new Stock();
`;

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

const PRISMA_MAIN = `import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule } from 'nestjs-redis-lock';
import { PrismaService, StockService } from './prisma.service.js';

@Module({
  imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  providers: [PrismaService, StockService],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const [stock, prisma] = [app.get(StockService), app.get(PrismaService)];
await Promise.all(Array.from({ length: 4 }, () => [stock.sell(1), stock.move(1, 2)]).flat());
process.stdout.write(JSON.stringify(await prisma.goods.findMany({ orderBy: { id: 'asc' } })));
await app.close();
`;

let folder: string;
let project: Consumer;

beforeAll(async () => {
  process.env['REDIS_URL'] = testRedisUrl();
  folder = await mkdtemp(join(tmpdir(), 'nestjs-redis-lock-'));
  project = new Consumer('nest12-tools', [], folder, packTarball(root, folder));
  await project.installed();
}, 600_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Copies a file of this folder into the project. */
async function use(path: string, to = basename(path)): Promise<void> {
  await project.write(to, await readFile(join(__dirname, path), 'utf8'));
}

describe('the recipe for bundles', () => {
  beforeAll(async () => {
    await use('bundles/stock.service.ts', 'src/stock.service.ts');
    await project.write('src/main.ts', MAIN);
    await project.write('src/unnamed.ts', UNNAMED);
  });

  const SOLD = 'goods 1 are sold, goods 1 are counted\n';

  it('has a configuration of webpack whose minified bundle locks', async () => {
    await use('bundles/webpack.config.cjs');
    // The sources are CommonJS in the bundle, which has no await outside of a function.
    await project.write('src/main.ts', MAIN.replace('await main()', 'void main()'));
    await project.node('webpack', ['node_modules/webpack/bin/webpack.js', '--config', 'webpack.config.cjs']);
    expect(await project.node('the bundle', ['dist/main.cjs'])).toBe(SOLD);
  });

  it('has a script of esbuild whose minified bundle locks', async () => {
    await project.write('src/main.ts', MAIN);
    await use('bundles/esbuild.mjs');
    await project.tsc();
    await project.node('esbuild', ['esbuild.mjs']);
    expect(await project.node('the bundle', ['bundle/main.mjs'])).toBe(SOLD);
  });

  it('has an error at start for a name that a minifier took away', async () => {
    await project.tsc();
    const script = (await readFile(join(__dirname, 'bundles/esbuild.mjs'), 'utf8')).replaceAll('main', 'unnamed');
    await project.write('unnamed.mjs', script);
    await project.node('esbuild', ['unnamed.mjs']);
    expect(await project.refused('the bundle', ['bundle/unnamed.mjs'])).toContain('minifiers rename parameters');
  });
});

describe('the recipe for test runners', () => {
  beforeAll(() => project.write('src/stock.test.ts', STOCK_TEST));

  it('has a configuration of Vitest', async () => {
    await use('runners/vitest.config.ts');
    const output = await project.node('vitest', ['node_modules/vitest/vitest.mjs', 'run']);
    expect(output).toMatch(/Tests +1 passed/);
  });

  const jest = ['--ci', '--rootDir', '.'];
  const jestBin = 'node_modules/jest/bin/jest.js';

  it('has a configuration of Jest with SWC', async () => {
    await use('runners/jest-swc.config.cjs');
    const output = await project.node('jest', [jestBin, ...jest, '-c', 'jest-swc.config.cjs']);
    expect(output).toMatch(/^Tests: +1 passed, 1 total$/m);
  });

  it('has a configuration of Jest with ts-jest', async () => {
    await use('runners/ts-jest.config.cjs');
    const flags = ['--experimental-vm-modules', '--no-warnings'];
    const output = await project.node('ts-jest', [...flags, jestBin, ...jest, '-c', 'ts-jest.config.cjs']);
    expect(output).toMatch(/^Tests: +1 passed, 1 total$/m);
  });
});

describe('the recipe for Prisma', () => {
  const { postgres } = SERVERS;
  let database: Database;
  let pool: Pool;

  beforeAll(async () => {
    if (postgres.missing !== undefined) return;
    database = await postgres.start();
    process.env['DATABASE_URL'] = database.url;
    pool = new Pool({ connectionString: database.url });
    await pool.query('CREATE TABLE "Goods" (id INTEGER PRIMARY KEY, "left" INTEGER NOT NULL)');
    await pool.query('INSERT INTO "Goods" VALUES (1, 10), (2, 10)');
  }, 120_000);
  afterAll(async () => {
    await pool?.end();
    await database?.stop();
  });

  it(
    'loses no update',
    onServer(postgres, async () => {
      await use('prisma/schema.prisma', 'src/schema.prisma');
      await use('prisma/prisma.service.ts', 'src/prisma.service.ts');
      await project.write('src/prisma-main.ts', PRISMA_MAIN);
      const generate = ['node_modules/prisma/build/index.js', 'generate', '--schema', 'src/schema.prisma'];
      await project.node('prisma generate', generate);
      await project.tsc();
      const goods: unknown = JSON.parse(await project.node('the application', ['dist/prisma-main.js']));
      expect(goods).toEqual([
        { id: 1, left: 10 - 4 - 4 },
        { id: 2, left: 10 + 4 },
      ]);
    }),
  );
});
