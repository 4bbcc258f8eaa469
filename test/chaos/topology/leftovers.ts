import type { Redis } from 'ioredis';
import { PREFIX } from '../workload/orders.js';

/** What outlives a lock by design: the last token. */
const REMEMBERED = /\|fence$|^redisson_lock_token:/;

/** Keys of locks and queues on that server. */
export async function leftoversAt(server: Redis): Promise<readonly string[]> {
  return (await server.keys(`*${PREFIX}*`)).filter((key) => !REMEMBERED.test(key));
}
