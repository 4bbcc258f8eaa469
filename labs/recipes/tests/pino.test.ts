import assert from 'node:assert/strict';
import { it } from 'node:test';
import { node } from './support.js';

it('logs the events of locks with their fields', async () => {
  const output = await node(['dist/tests/pino-app.js']);
  const lines = output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const of = (message: string) => lines.filter(({ msg }) => msg === message);
  assert.deepEqual(
    of('lock released').map(({ resource, context, level }) => [resource, context, level]),
    [['goods:302', 'LockLog', 20]],
  );
  const [lost] = of('lock lost');
  assert.deepEqual([lost?.['resource'], lost?.['level'], typeof lost?.['heldMs']], ['goods:303', 50, 'number']);
  assert.match(String((lost?.['err'] as Error | undefined)?.message), /goods:303/);
  // The line of the module itself.
  assert.ok(lines.some(({ context, msg }) => context !== 'LockLog' && String(msg).includes('goods:303')));
});
