import { type CanActivate, type ExecutionContext, Injectable, Module } from '@nestjs/common';
import type { AwaitedLockInfo, HeldLockInfo, LockInfo, LockService } from 'nestjs-redis-lock';
import { RedisLockBoardModule, type RedisLockBoardOptions } from 'nestjs-redis-lock/board';
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

/** Starts an application with a board behind the guard. */
export function startBoard(options: RedisLockBoardOptions = {}, setUp: AppSetUp = {}): Promise<TestApp> {
  const board = RedisLockBoardModule.forRoot({ guards: [AdminGuard], imports: [AdminsModule], ...options });
  // Tests leave locks held: their applications end at once.
  const locks = { shutdownGraceMs: 1, ...setUp.locks };
  return startApp({ ...setUp, locks, imports: [board, ...(setUp.imports ?? [])] });
}

/** Replaces what a lock service lists. */
export function listOf(locks: LockService, list: () => AsyncIterable<LockInfo>): void {
  Object.defineProperty(locks, 'list', { value: list, configurable: true });
}

/** Returns a held lock as the lock service lists it. */
export function heldLock(resource: string, changes: Partial<HeldLockInfo> = {}): HeldLockInfo {
  return {
    resource,
    key: `{lock_}${resource}`,
    isHeld: true,
    holder: 'api-1-AAAAAAAAAAAAAAAA',
    identity: 'api-1',
    isOwn: false,
    expiresInMs: 30_000,
    fencingToken: 7,
    mode: 'exclusive',
    permits: undefined,
    others: [],
    waiting: [],
    ...changes,
  };
}

/** Returns a lock that nobody holds. */
export function awaitedLock(resource: string, ...identities: string[]): LockInfo {
  const nobody = { isHeld: false, holder: undefined, identity: undefined, expiresInMs: 0, fencingToken: undefined };
  return { ...heldLock(resource, { waiting: waiters(...identities) }), ...nobody, mode: undefined } as AwaitedLockInfo;
}

/** Returns instances that wait for a lock. */
export function waiters(...identities: string[]): HeldLockInfo['waiting'] {
  return identities.map((identity) => {
    return { waiter: identity, identity, isOwn: false, mode: 'exclusive', permits: undefined };
  });
}

/** Returns further holders of a shared lock. */
export function holders(...identities: string[]): HeldLockInfo['others'] {
  return identities.map((identity) => {
    return { holder: identity, identity, isOwn: false, expiresInMs: 30_000, fencingToken: undefined };
  });
}
