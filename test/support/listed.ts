import type { LockInfo, LockService } from 'nestjs-redis-lock';

type ListOptions = Parameters<LockService['list']>[0];

/** Returns the resources of all listed locks, sorted. A lock that is listed twice is in it twice. */
export async function listedBy(locks: LockService, options?: ListOptions): Promise<readonly string[]> {
  return (await infosOf(locks.list(options))).map(({ resource }) => resource);
}

/** Returns all locks, sorted by resource. */
export async function infosOf(locks: AsyncIterable<LockInfo>): Promise<readonly LockInfo[]> {
  const found: LockInfo[] = [];
  for await (const info of locks) found.push(info);
  return found.toSorted((one, other) => (one.resource < other.resource ? -1 : 1));
}

/** Begins a listing in small steps and returns it after its first lock, so that a fault can come in between. */
export async function begunListing(locks: LockService, count = 5): Promise<AsyncGenerator<LockInfo, void, undefined>> {
  const listing = locks.list({ count });
  const { done } = await listing.next();
  if (done) throw new Error('there is no lock');
  return listing;
}

/** Reads the rest of a listing. Returns the number of locks. */
export async function restOf(listing: AsyncIterable<LockInfo>): Promise<number> {
  return (await infosOf(listing)).length;
}
