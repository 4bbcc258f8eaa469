import { Inject, Injectable, Scope } from '@nestjs/common';
import {
  type ContextId,
  ContextIdFactory,
  type ContextIdStrategy,
  type HostComponentInfo,
  REQUEST,
} from '@nestjs/core';
import { LockService, resource } from 'nestjs-redis-lock';

interface Tenant {
  readonly tenant: string;
}

/** One object for each tenant. It serves all of the tenant's requests. */
@Injectable({ scope: Scope.REQUEST, durable: true })
export class PriceList {
  private version = 0;

  constructor(
    @Inject(REQUEST) private readonly context: Tenant,
    private readonly locks: LockService,
  ) {}

  update(): Promise<string> {
    const { tenant } = this.context;
    return this.locks.using(resource`prices:${tenant}`, () => `version ${(this.version += 1)} of ${tenant}`);
  }
}

export class ByTenant implements ContextIdStrategy {
  private readonly trees = new Map<string, ContextId>();

  attach(contextId: ContextId, request: { headers?: Record<string, string> }) {
    const tenant = request.headers?.['x-tenant'] ?? 'none';
    const tree = this.trees.get(tenant) ?? ContextIdFactory.create();
    this.trees.set(tenant, tree);
    const resolve = (info: HostComponentInfo): ContextId => (info.isTreeDurable ? tree : contextId);
    return { resolve, payload: { tenant } satisfies Tenant };
  }
}
