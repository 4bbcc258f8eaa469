import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Locked, LockService, resource } from 'nestjs-redis-lock';

/** One object for each request. They all share the locks of the module. */
@Injectable({ scope: Scope.REQUEST })
export class CartService {
  constructor(
    @Inject(REQUEST) private readonly request: { readonly headers: Readonly<Record<string, string>> },
    private readonly locks: LockService,
  ) {}

  @Locked('cart:<id>')
  async add(id: number): Promise<string> {
    return `added to cart ${id}`;
  }

  /** A key from the request: templates see arguments only. */
  checkOut(id: number): Promise<string> {
    const tenant = this.request.headers['x-tenant'];
    return this.locks.using(resource`cart:${tenant}:${id}`, () => `cart ${id} of ${tenant} is paid`);
  }
}
