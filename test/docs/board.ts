import { type CanActivate, type ExecutionContext, Injectable, Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';

@Injectable()
export class AdminGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<{ user?: { isAdmin: boolean } }>();
    return user?.isAdmin === true;
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
    RedisLockBoardModule.forRoot({ route: 'locks', guards: [AdminGuard], allowRelease: true }),
  ],
})
export class AppModule {}
