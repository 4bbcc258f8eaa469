import { Inject, Injectable } from '@nestjs/common';
import { LockService } from 'nestjs-redis-lock';

/** Runs work under a lock of the old library. */
export abstract class OldLocks {
  abstract using<T>(name: string, work: () => Promise<T>): Promise<T>;
}

@Injectable()
export class OrderService {
  constructor(
    @Inject(OldLocks) private readonly oldLocks: OldLocks,
    private readonly locks: LockService,
  ) {}

  // Step 1: the old lock, and the new one inside it. Step 2 is `this.locks.using(…)` alone.
  pay<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.oldLocks.using(`order:${id}`, () => this.locks.using(`order:${id}`, work));
  }
}
