import type { Redis } from 'ioredis';
import { PREFIX } from '../workload/orders.js';

/** The last token outlives a lock by design. */
const REMEMBERED = /\|fence$|^redisson_lock_token:/;

/** Returns the keys of locks and queues on that server. */
export async function leftoversAt(server: Redis): Promise<readonly string[]> {
  return (await server.keys(`*${PREFIX}*`)).filter((key) => !REMEMBERED.test(key));
}
