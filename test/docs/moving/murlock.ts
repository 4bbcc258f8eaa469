import { Injectable, Module } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';

@Injectable()
export class UserService {
  // Before: @MurLock(30000, 'user.id'), which is not renewed and has the key UserService:rename:<id>.
  @Locked('UserService:rename:<user.id>', { ttlMs: 30_000, waitMs: 20_000 })
  async rename(user: { readonly id: number }, name: string): Promise<string> {
    return `user ${user.id} is ${name}`;
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], key: (resource) => resource })],
  providers: [UserService],
})
export class UserModule {}
