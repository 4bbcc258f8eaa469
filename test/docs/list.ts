import type { LockService } from 'nestjs-redis-lock';

export async function printLocks(locks: LockService, print: (line: string) => void): Promise<void> {
  for await (const { resource, identity, waiting } of locks.list({ match: 'goods:*' })) {
    print(`${resource}: held by ${identity ?? 'nobody'}, ${waiting.length} waiting`);
  }
}
