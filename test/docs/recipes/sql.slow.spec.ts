import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, UnprocessableEntityException } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { SqlFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { Pool } from 'pg';
import { type Database, onServer, SERVERS } from '../../support/sql/databases.js';
import { PriceService } from '../../support/price-service.js';
import { PaymentProvider, PaymentService } from './payments.js';

const { postgres } = SERVERS;

/** Locks whose callers never time out, however busy the machine is. */
const patientLocks = () => createTestLocks({ clock: new ManualClock() });

let database: Database;
let pool: Pool;

beforeAll(async () => {
  if (postgres.missing !== undefined) return;
  database = await postgres.start();
  pool = new Pool({ connectionString: database.url });
  await pool.query(new SqlFence('postgres').statements.createTable);
  await pool.query('CREATE TABLE payments (key TEXT PRIMARY KEY, charge TEXT NOT NULL, cents INTEGER NOT NULL)');
  await pool.query('CREATE TABLE prices (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL, version INTEGER NOT NULL)');
});
afterAll(async () => {
  await pool?.end();
  await database?.stop();
});

describe('the recipe for payments', () => {
  /** Makes one charge for each key. */
  class Provider extends PaymentProvider {
    readonly charges = new Map<string, string>();
    requests = 0;
    meanwhile: () => Promise<unknown> = () => Promise.resolve();

    async charge(cents: number, idempotencyKey: string): Promise<string> {
      this.requests += 1;
      const charge = this.charges.get(idempotencyKey) ?? `charge ${this.charges.size + 1} of ${cents}`;
      this.charges.set(idempotencyKey, charge);
      await this.meanwhile();
      return charge;
    }
  }

  const payments = async () => (await pool.query<{ charge: string }>('SELECT charge FROM payments')).rows;
  let provider: Provider;
  let service: PaymentService;

  beforeEach(async () => {
    provider = new Provider();
    service = new PaymentService(patientLocks(), pool, provider);
    await pool?.query('TRUNCATE payments, fences');
  });

  it(
    'charges once however often the client repeats its request',
    onServer(postgres, async () => {
      const charges = await Promise.all(Array.from({ length: 5 }, () => service.pay('order-1', 999)));
      expect(new Set(charges)).toEqual(new Set(['charge 1 of 999']));
      expect([provider.requests, await payments()]).toEqual([1, [{ charge: 'charge 1 of 999' }]]);
      await expect(service.pay('order-1', 1)).rejects.toThrow(UnprocessableEntityException);
    }),
  );

  it(
    'lets no late holder write, and its repetition is the same charge',
    onServer(postgres, async () => {
      provider.meanwhile = () => pool.query('UPDATE fences SET token = token + 1000000');
      await expect(service.pay('order-2', 500)).rejects.toThrow(StaleFenceError);
      expect(await payments()).toEqual([]);
      provider.meanwhile = () => Promise.resolve();
      await pool.query('TRUNCATE fences');
      expect(await service.pay('order-2', 500)).toBe('charge 1 of 500');
      expect([provider.charges.size, await payments()]).toEqual([1, [{ charge: 'charge 1 of 500' }]]);
    }),
  );
});

describe('the recipe for versions', () => {
  const price = async () => (await pool.query('SELECT cents, version FROM prices WHERE id = 1')).rows[0] as object;
  let prices: PriceService;

  beforeEach(async () => {
    prices = withLocks(new PriceService(pool), patientLocks());
    await pool?.query('TRUNCATE prices');
    await pool?.query('INSERT INTO prices VALUES (1, 100, 1)');
  });

  it(
    'needs no repetition under the lock',
    onServer(postgres, async () => {
      // Long enough that the others would read the same version, if they did not wait for the lock.
      const slowly = async (cents: number) => sleep(50, cents * 2);
      await Promise.all([1, 2, 3].map(() => prices.raise(1, slowly)));
      expect(await price()).toEqual({ cents: 800, version: 4 });
    }),
  );

  it(
    'refuses a writer that was overtaken, even by a writer without a lock',
    onServer(postgres, async () => {
      const overtaken = async (cents: number) => {
        await pool.query('UPDATE prices SET cents = 5, version = version + 1 WHERE id = 1');
        return cents * 2;
      };
      await expect(prices.raise(1, overtaken)).rejects.toThrow(ConflictException);
      expect(await price()).toEqual({ cents: 5, version: 2 });
    }),
  );
});
