import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './pages.js';

const source = readFileSync(join(root, 'lib/events/tracing.ts'), 'utf8');
const [, union = ''] = /export type LockOutcome =([^;]+);/.exec(source) ?? [];

/** Every `LockOutcome`, as the type lists them. */
export const outcomes: readonly string[] = [...union.matchAll(/'(\w+)'/g)].map(([, name]) => name);
