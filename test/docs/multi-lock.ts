import { Injectable } from '@nestjs/common';
import { CurrentLock, Locked, LockService, type MultiLock, resource } from 'nestjs-redis-lock';

@Injectable()
export class AccountsService {
  private readonly cents = new Map<number, number>();
  constructor(private readonly locks: LockService) {}

  @Locked(['account:<from>', 'account:<to>']) // both or none, without deadlocks
  async transfer(
    from: number,
    to: number,
    cents: number,
    @CurrentLock() locks?: MultiLock,
  ): Promise<void> {
    const [left, right] = [this.balance(from) - cents, this.balance(to) + cents];
    locks?.assertHeld(); // checks both
    this.cents.set(from, left).set(to, right);
  }

  @Locked('account:<...ids>') // locks each element of the array
  async total(ids: readonly number[]): Promise<number> {
    return ids.reduce((sum, id) => sum + this.balance(id), 0);
  }

  closeAll(ids: readonly number[]): Promise<readonly number[]> {
    const accounts = ids.map((id) => resource`account:${id}`);
    return this.locks.using(accounts, { waitMs: 1_000 }, async (locks) => {
      for (const id of ids) this.cents.delete(id);
      return accounts.map((account) => locks.of(account).fencingToken); // each has its own
    });
  }

  private balance(id: number): number {
    return this.cents.get(id) ?? 0;
  }
}
