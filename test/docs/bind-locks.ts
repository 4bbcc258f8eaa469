import { bindLocks, Locked, type LockService } from 'nestjs-redis-lock';

export class Shelf {
  @Locked('shelf:<id>')
  async fill(id: number): Promise<string> {
    return `shelf ${id} is filled`;
  }
}

export function shelvesOf(locks: LockService): Shelf[] {
  return [bindLocks(new Shelf(), locks), bindLocks(new Shelf(), locks)];
}
