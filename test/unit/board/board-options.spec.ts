import type { CanActivate } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';

class AdminGuard implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

const refusal = (options: object): unknown => {
  try {
    return RedisLockBoardModule.forRoot(options);
  } catch (error) {
    return error;
  }
};
const asyncRefusal = (options: object): unknown => {
  try {
    return RedisLockBoardModule.forRootAsync(options as never);
  } catch (error) {
    return error;
  }
};

describe('the options of the board', () => {
  it.each([{}, { guards: [] }, { unprotected: false }, { unprotected: undefined, guards: undefined }])(
    'refuses a page without a guard: %j',
    (options) => {
      const error = refusal(options);
      expect(error).toBeInstanceOf(LockConfigError);
      expect((error as Error).message).toMatch(
        /guards is missing or empty.*give at least one guard, or unprotected: true/,
      );
      expect(asyncRefusal({ ...options, useFactory: () => ({}) })).toBeInstanceOf(LockConfigError);
    },
  );

  it.each([
    [{ guards: [AdminGuard], unprotected: true }, /unprotected and guards are both set/],
    [{ guards: [undefined] }, /guards is an array; expected a list of guards/],
    [{ guards: [AdminGuard], route: ':id' }, /route is ":id"; expected a path of letters/],
    [{ guards: [AdminGuard], route: 'locks?x' }, /route/],
    [{ guards: [AdminGuard], name: '' }, /name is ""/],
    [{ guards: [AdminGuard], allowRelease: 'yes' }, /allowRelease is "yes"; expected true or false/],
    [{ unprotected: true, hosts: 'example.com' }, /hosts is "example.com"; expected a list of host names/],
    [{ unprotected: true, hosts: ['example.com:80'] }, /hosts is an array; expected a list of host names/],
    [{ unprotected: true, hosts: ['*'] }, /hosts/],
    [{ guards: [AdminGuard], who: 'me' }, /who is "me"; expected a function/],
    [{ guards: [AdminGuard], imports: 1 }, /imports is 1; expected a list/],
    [{ guards: [AdminGuard], path: 'locks' }, /there is no option path; there are route, guards/],
  ])('refuses %j', (options, message) => {
    expect(refusal(options)).toBeInstanceOf(LockConfigError);
    expect((refusal(options) as Error).message).toMatch(message);
  });

  it('refuses asynchronous options without a factory', () => {
    expect(asyncRefusal({ guards: [AdminGuard] })).toMatchObject({ code: 'LOCK_CONFIG' });
  });

  it('allows guards as classes and as objects, or none on purpose', () => {
    expect(refusal({ guards: [AdminGuard] })).toHaveProperty('controllers');
    expect(refusal({ guards: [new AdminGuard()], route: '/admin/locks/' })).toHaveProperty('controllers');
    expect(refusal({ unprotected: true })).toHaveProperty('controllers');
  });
});
