import { Injectable } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

@Injectable()
export class SupplierClient {
  @Locked('supplier:<name>', { permits: 5, waitMs: 20_000 }) // five requests at a time
  async order(name: string, item: string, @CurrentLock() lock?: Lock): Promise<string> {
    return this.send(name, item, lock?.signal);
  }

  @Locked('quota:<name>', { permits: 5, minHoldMs: 1_000, waitMs: 20_000 }) // five requests a second
  async search(name: string, item: string, @CurrentLock() lock?: Lock): Promise<string> {
    return this.send(name, item, lock?.signal);
  }

  protected async send(name: string, item: string, signal?: AbortSignal): Promise<string> {
    const response = await fetch(`https://${name}.example/${item}`, { signal });
    return response.text();
  }
}
