import { Injectable, UnprocessableEntityException } from '@nestjs/common';
import { LockService, resource } from 'nestjs-redis-lock';
import { SqlFence } from 'nestjs-redis-lock/fence';
import { Pool, type PoolClient } from 'pg';

/** The payment provider. Calls with the same key are one charge, however often they are repeated. */
export abstract class PaymentProvider {
  abstract charge(cents: number, idempotencyKey: string): Promise<string>;
}

interface Payment {
  readonly charge: string;
  readonly cents: number;
}

const fence = new SqlFence('postgres');
const rowsOf = (client: Pool | PoolClient) => async (sql: string, params: (string | number)[]) =>
  (await client.query(sql, params)).rows;

@Injectable()
export class PaymentService {
  constructor(
    private readonly locks: LockService,
    private readonly pool: Pool,
    private readonly provider: PaymentProvider,
  ) {}

  /** `key` is the Idempotency-Key of the client, or the number of the order. */
  pay(key: string, cents: number): Promise<string> {
    const payment = resource`payment:${key}`;
    return this.locks.using(payment, { onLost: 'ignore' }, async ({ fencingToken }) => {
      await fence.open(rowsOf(this.pool), payment, fencingToken); // before the first read
      const earlier = await this.find(key);
      if (earlier === undefined) {
        const charge = await this.provider.charge(cents, payment); // always with the same key
        await this.save(key, { charge, cents }, payment, fencingToken);
        return charge;
      }
      if (earlier.cents !== cents)
        throw new UnprocessableEntityException('This key was used for another payment.');
      return earlier.charge;
    });
  }

  private async find(key: string): Promise<Payment | undefined> {
    const { rows } = await this.pool.query<Payment>(
      'SELECT charge, cents FROM payments WHERE key = $1',
      [key],
    );
    return rows[0];
  }

  private async save(
    key: string,
    { charge, cents }: Payment,
    payment: string,
    fencingToken: number,
  ): Promise<void> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      await fence.write(rowsOf(client), payment, fencingToken); // or a StaleFenceError
      await client.query('INSERT INTO payments (key, charge, cents) VALUES ($1, $2, $3)', [
        key,
        charge,
        cents,
      ]);
      await client.query('COMMIT');
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    } finally {
      client.release();
    }
  }
}
