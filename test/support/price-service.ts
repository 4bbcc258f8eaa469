import { ConflictException, Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';
import { Pool } from 'pg';

@Injectable()
export class PriceService {
  constructor(private readonly pool: Pool) {}

  @Locked('price:<id>', { onLost: 'ignore' }) // the version decides
  async raise(id: number, quote: (cents: number) => Promise<number>): Promise<number> {
    const { rows } = await this.pool.query<{ cents: number; version: number }>(
      'SELECT cents, version FROM prices WHERE id = $1',
      [id],
    );
    const [{ cents, version }] = rows;
    const raised = await quote(cents); // may take longer than the lease
    const { rowCount } = await this.pool.query(
      'UPDATE prices SET cents = $3, version = version + 1 WHERE id = $1 AND version = $2',
      [id, version, raised],
    );
    if (rowCount === 0) throw new ConflictException('Another writer has changed the price.');
    return raised;
  }
}
