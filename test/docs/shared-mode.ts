import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';

@Injectable()
export class CatalogueService {
  @Locked('catalogue:<shop>', { mode: 'shared' }) // together with other readers, in all processes
  async read(shop: string): Promise<string> {
    return `the goods of ${shop}`;
  }

  @Locked('catalogue:<shop>') // exclusive
  async replace(shop: string): Promise<string> {
    return this.read(shop); // an exclusive holder may read
  }

  @Locked('supplier:<name>', { permits: 5 }) // five at a time
  async order(name: string): Promise<string> {
    return `ordered from ${name}`;
  }
}
