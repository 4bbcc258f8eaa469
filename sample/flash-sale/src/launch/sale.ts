import type { StockLevel } from '../goods/stock.js';
import type { Instance } from './instance.js';

const TIMEOUT_MS = 15_000;

export interface Sale {
  readonly stock: number;
  readonly buyers: number;
  /** The number of buyers whose purchase was confirmed. */
  readonly sold: number;
  readonly left: number;
  readonly oversold: number;
  readonly elapsedMs: number;
}

/** Puts goods on sale without what is left of an earlier sale. Sends all buyers at once, spread over all instances. */
export async function holdSale(
  instances: readonly Instance[],
  { id, stock, buyers, path }: { id: number; stock: number; buyers: number; path: string },
): Promise<Sale> {
  const urls = instances.map(({ url }) => `${url}/goods/${id}`);
  const [goods = ''] = urls;
  await expectStatus(fetch(goods, { method: 'DELETE' }), [204]);
  await expectStatus(post(`${goods}/restock`, new URLSearchParams({ amount: String(stock) })), [201]);

  const startedAt = performance.now();
  const responses = await Promise.all(
    Array.from({ length: buyers }, (_, n) => expectStatus(post(`${urls[n % urls.length]}/${path}`), [201, 409])),
  );
  const elapsedMs = performance.now() - startedAt;

  const sold = responses.filter(({ status }) => status === 201).length;
  const { left } = (await (await expectStatus(fetch(goods), [200])).json()) as StockLevel;
  return { stock, buyers, sold, left, oversold: Math.max(0, sold - stock), elapsedMs };
}

function post(url: string, body?: URLSearchParams): Promise<Response> {
  return fetch(url, { method: 'POST', signal: AbortSignal.timeout(TIMEOUT_MS), ...(body && { body }) });
}

// An error is not a refused buyer.
async function expectStatus(request: Promise<Response>, expected: readonly number[]): Promise<Response> {
  const response = await request;
  if (expected.includes(response.status)) return response;
  throw new Error(`${response.url} returned ${response.status}: ${await response.text()}`);
}
