import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

export interface Stock {
  left: number;
}

export interface Bank {
  charge(id: number): Promise<void>;
}

export class Shop {
  constructor(
    private readonly stock: Stock,
    private readonly bank: Bank,
  ) {}

  @Locked('goods:<id>')
  async buy(id: number): Promise<boolean> {
    if (this.stock.left === 0) return false;
    await this.bank.charge(id);
    this.stock.left -= 1;
    return true;
  }
}

export class SafeShop {
  constructor(
    private readonly stock: Stock,
    private readonly bank: Bank,
  ) {}

  @Locked('goods:<id>')
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<boolean> {
    if (this.stock.left === 0) return false;
    await this.bank.charge(id);
    lock?.assertHeld(); // throws LockLostError
    this.stock.left -= 1;
    return true;
  }
}
