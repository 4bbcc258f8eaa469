import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  ServerConnection,
  StoreCapabilities,
  StoreListener,
} from '../../../lib/core/store/lock-store.js';
import type { Link } from './link.js';

/** The store of one process: a link to each server. */
export class LinkStore implements LockStore {
  readonly capabilities: StoreCapabilities = {
    name: 'links',
    queue: true,
    fencing: true,
    idempotentAcquire: true,
    modes: ['exclusive', 'shared', 'permits'],
    maxKeys: 256,
    resolutionMs: 1,
  };
  readonly serverOf: LockStore['serverOf'];

  constructor(
    readonly links: readonly Link[],
    private readonly indexOf: (key: string) => number,
  ) {
    // A single server has no name.
    this.serverOf = links.length > 1 ? (key) => this.linkOf(key).server : undefined;
  }

  connections(): Iterable<ServerConnection> {
    return this.links;
  }

  listen(listener: StoreListener): () => void {
    for (const link of this.links) link.listen(listener);
    return () => this.closeLinks();
  }

  acquire(request: AcquireRequest): PromiseLike<AcquireReply> {
    return this.linkOf(request.keys[0]).acquire(request);
  }

  release(request: ReleaseRequest): PromiseLike<boolean> {
    return this.linkOf(request.keys[0]).release(request);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    const replies = new Map<ExtendRequest, ExtendReply>();
    const ofLink = (link: Link) => requests.filter(({ keys }) => this.linkOf(keys[0]) === link);
    const send = async (link: Link, batch: readonly ExtendRequest[]): Promise<void> => {
      const found = await link.extend(batch);
      batch.forEach((request, i) => replies.set(request, found[i]));
    };
    const batches = this.links.map((link) => [link, ofLink(link)] as const).filter(([, batch]) => batch.length > 0);
    await Promise.all(batches.map(([link, batch]) => send(link, batch)));
    return requests.map((request) => replies.get(request) as ExtendReply);
  }

  forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    return this.linkOf(request.key).forceRelease(request);
  }

  inspect(key: string): Promise<LockState | null> {
    return this.linkOf(key).inspect();
  }

  ping(): Promise<never> {
    throw new Error('nobody pings in a simulation');
  }

  async close(): Promise<void> {
    this.closeLinks();
  }

  linkOf(key: string): Link {
    return this.links[this.indexOf(key)];
  }

  private closeLinks(): void {
    for (const link of this.links) link.close();
  }
}
