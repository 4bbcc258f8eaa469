import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { assets } from '../../../lib/board/assets.js';

const ROOT = join(__dirname, '../../..');

it('the embedded page of the board is up to date', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'tools/embed-board.mjs'), '--check']);
  expect([status, String(stderr)]).toEqual([0, '']);
});

it('the script of the board has no comments, imports and exports', () => {
  expect(assets.script).not.toMatch(/^\s*(?:\/\/|\/\*|\*|import |export )/m);
  expect(assets.page).toContain('<style>{{style}}</style>');
  expect(assets.page).toContain('<script type="module">{{script}}</script>');
});
