import { Module, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Pool } from 'pg';

const clients = [
  {
    provide: Redis,
    useFactory: () => new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'),
  },
  { provide: Pool, useFactory: () => new Pool({ connectionString: process.env['DATABASE_URL'] }) },
];

@Module({ providers: clients, exports: clients })
export class DataModule implements OnApplicationShutdown {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
  ) {}

  async onApplicationShutdown(): Promise<void> {
    this.redis.disconnect();
    await this.pool.end();
  }
}
