import { ManualClock } from 'nestjs-redis-lock/testing';

/** A manual clock with random numbers that are the same in each run. */
export class JitteredClock extends ManualClock {
  private state = 1;

  override random(): number {
    this.state = (this.state * 48_271) % 2_147_483_647;
    return this.state / 2_147_483_647;
  }
}
