import type { StockLevel } from '../goods/stock.js';
import type { Instance } from './instance.js';

const TIMEOUT_MS = 15_000;

export interface Sale {
  readonly stock: number;
  readonly buyers: number;
  /** Buyers who were told that they have bought. */
  readonly sold: number;
  readonly left: number;
  readonly oversold: number;
  readonly elapsedMs: number;
}

/** Puts goods up for sale that were not sold before, and sends all buyers at once, to all instances by turns. */
export async function holdSale(
  instances: readonly Instance[],
  { id, stock, buyers, path }: { id: number; stock: number; buyers: number; path: string },
): Promise<Sale> {
  const urls = instances.map(({ url }) => `${url}/goods/${id}`);
  const [goods = ''] = urls;
  await expectAnswer(post(`${goods}/restock`, new URLSearchParams({ amount: String(stock) })), [201]);

  const startedAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: buyers }, (_, n) => expectAnswer(post(`${urls[n % urls.length]}/${path}`), [201, 409])),
  );
  const elapsedMs = performance.now() - startedAt;

  const sold = answers.filter(({ status }) => status === 201).length;
  const { left } = (await (await expectAnswer(fetch(goods), [200])).json()) as StockLevel;
  return { stock, buyers, sold, left, oversold: Math.max(0, sold - stock), elapsedMs };
}

function post(url: string, body?: URLSearchParams): Promise<Response> {
  return fetch(url, { method: 'POST', signal: AbortSignal.timeout(TIMEOUT_MS), ...(body && { body }) });
}

/** A demo that counts errors as buyers who were sent away would prove too much. */
async function expectAnswer(request: Promise<Response>, expected: readonly number[]): Promise<Response> {
  const response = await request;
  if (expected.includes(response.status)) return response;
  throw new Error(`${response.url} answered ${response.status}: ${await response.text()}`);
}
