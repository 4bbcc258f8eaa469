import { setTimeout } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { WhileLeader } from 'nestjs-redis-lock';

@Injectable()
export class OutboxService {
  readonly sent: string[] = [];
  readonly outbox = ['invoice 1', 'invoice 2'];

  @WhileLeader('outbox', { ttlMs: 10_000 })
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.sent.push(...this.outbox.splice(0));
      await setTimeout(1_000, undefined, { signal });
    }
  }
}
