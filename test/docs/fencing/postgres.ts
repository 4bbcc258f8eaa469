import { Controller, Param, ParseIntPipe, Post } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';
import { SqlFence } from 'nestjs-redis-lock/fence';
import { Pool, type PoolClient } from 'pg';

const fence = new SqlFence('postgres');
const rowsOf = (client: Pool | PoolClient) => async (sql: string, params: (string | number)[]) =>
  (await client.query(sql, params)).rows;

@Controller('accounts/:id')
export class AccountsController {
  constructor(private readonly pool: Pool) {}

  @Post('interest')
  @Locked('account:<id>', { onLost: 'ignore' })
  async addInterest(
    @Param('id', ParseIntPipe) id: number,
    @CurrentLock() lock: Lock,
  ): Promise<number> {
    await fence.open(rowsOf(this.pool), lock.resource, lock.fencingToken); // before the first read
    const { rows } = await this.pool.query<{ cents: string }>(
      'SELECT cents FROM accounts WHERE id = $1',
      [id],
    );
    const cents = Math.round(Number(rows[0]?.cents) * 1.01); // and other slow work

    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      await fence.write(rowsOf(client), lock.resource, lock.fencingToken); // or a StaleFenceError
      await client.query('UPDATE accounts SET cents = $2 WHERE id = $1', [id, cents]);
      await client.query('COMMIT');
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    } finally {
      client.release();
    }
    return cents;
  }
}
