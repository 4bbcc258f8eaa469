import { expect, it } from '@jest/globals';
import { page } from '../support/pages.js';

// The figures come from test/nest/transactions/orders.slow.spec.ts, which also checks the rows.
it('the page on transactions has figures of all orders, and none is lost with a scope', () => {
  const { text } = page('docs/transactions.md');
  const rows = [...text.matchAll(/^\| .*?@?\w.*?\| (\d+) +\| (\d+) +\|$/gm)];
  const figures = rows.map(([, without, within]) => [Number(without), Number(within)]);
  expect(figures.filter(([without]) => without === 60)).toHaveLength(2);
  expect(figures.filter(([without]) => without < 60)).toHaveLength(3);
  expect(figures.every(([, within]) => within === 60)).toBe(true);
});
