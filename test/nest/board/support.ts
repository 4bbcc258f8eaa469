import { type CanActivate, type ExecutionContext, Injectable, Module } from '@nestjs/common';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
import { type AppSetUp, startApp, type TestApp } from '../support/app.js';

/** What the guard lets in. It is injected, so that the test shows that guards get their providers. */
@Injectable()
export class Admins {
  readonly passwords = new Set(['secret']);
}

@Module({ providers: [Admins], exports: [Admins] })
export class AdminsModule {}

/** Lets in requests with the password, in a header or in a cookie. Sets the user. */
@Injectable()
export class AdminGuard implements CanActivate {
  constructor(private readonly admins: Admins) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string>; user?: object }>();
    const given = request.headers['x-admin'] ?? /admin=(\w+)/.exec(request.headers['cookie'] ?? '')?.[1] ?? '';
    request.user = { id: 7, name: 'alice' };
    return this.admins.passwords.has(given);
  }
}

type BoardOptions = Parameters<typeof RedisLockBoardModule.forRoot>[0];

/** Starts an application with a board behind the guard. */
export function startBoard(options: BoardOptions = {}, setUp: AppSetUp = {}): Promise<TestApp> {
  const board = RedisLockBoardModule.forRoot({ guards: [AdminGuard], imports: [AdminsModule], ...options });
  // Tests leave locks held: their applications end at once.
  const locks = { shutdownGraceMs: 1, ...setUp.locks };
  return startApp({ ...setUp, locks, imports: [board, ...(setUp.imports ?? [])] });
}
