import { describe, expect, it } from '@jest/globals';
import { describeLock, LOCK_COLUMNS, lockToJson } from '../../../lib/cli/lock-view.js';
import { formatTable } from '../../../lib/cli/table.js';
import { awaitedView, heldView, holderOf, waiterOf } from '../../support/lock-views.js';

describe('the table of locks', () => {
  it('shows exclusive, shared and awaited locks, and permits', () => {
    const views = [
      heldView('goods:300', { fencingToken: 1795392000000000, waiting: [waiterOf('api-2')] }, 4_200),
      heldView('menu', { mode: 'shared', others: [holderOf('api-2'), holderOf('api-3')] }),
      heldView('pool', { mode: 'shared', permits: 5, others: [holderOf('api-2')] }),
      awaitedView('stuck'),
      heldView('foreign', { ...holderOf(undefined), expiresInMs: Infinity }),
    ];
    expect(formatTable(views, LOCK_COLUMNS)).toEqual([
      'RESOURCE   MODE            HOLDER                   HELD FOR      LEASE             TOKEN  WAITING',
      'goods:300  exclusive       api-1                       4.2 s     29.4 s  1795392000000000        1',
      'menu       shared          api-1 and 2 others              -     29.4 s                 -        0',
      'pool       2 of 5 permits  api-1 and 1 other               -     29.4 s                 -        0',
      'stuck      -               nobody                          -          -                 -        1',
      'foreign    exclusive       value of another system         -  unlimited                 -        0',
    ]);
  });

  it('escapes hostile resources and holders', () => {
    const holder = 'line\nbreak\u202e';
    const lines = formatTable([heldView('goods:\u202e1', { holder, identity: undefined })], LOCK_COLUMNS);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain(String.raw`goods:\u{202e}1`);
    expect(lines[1]).toContain(String.raw`line\u{a}break\u{202e}`);
  });
});

describe('one lock', () => {
  it('is described with its holders and its queue', () => {
    const waiting = [waiterOf('api-2'), waiterOf('api-3', 5)];
    expect(describeLock(heldView('goods:300', { fencingToken: 17, waiting }, 61_000))).toEqual([
      'goods:300',
      '  key       {lock_goods:300}',
      '  state     held, exclusive',
      '  holder    api-1',
      '            api-1-AbCdEfGhIjKlMnOp',
      '  lease     29.4 s',
      '  held for  1 min 1 s',
      '  token     17',
      '  waiting   2',
      '            1. api-2, exclusive',
      '            2. api-3, one of 5 permits',
    ]);
  });

  it('is described if nobody holds it', () => {
    expect(describeLock(awaitedView('stuck')).slice(2)).toEqual([
      '  state     nobody holds it, and others wait',
      '  waiting   1',
      '            1. api-2, exclusive',
    ]);
  });

  it('is described with all sharers', () => {
    const lines = describeLock(heldView('menu', { mode: 'shared', others: [holderOf('api-2')] }));
    expect(lines.filter((line) => line.startsWith('  holder'))).toEqual(['  holder    api-1', '  holder    api-2']);
  });
});

describe('an instance of another wire version', () => {
  const waiting = [{ ...waiterOf('api-2'), wireVersion: 2 }];
  const view = heldView('goods:300', { wireVersion: 2, waiting });

  it('is shown as such in the table and in the description', () => {
    expect(formatTable([view], LOCK_COLUMNS)[1]).toContain('api-1 (another version: wire 2)');
    expect(describeLock(view)).toEqual(
      expect.arrayContaining([
        '  holder    api-1 (another version: wire 2)',
        '            1. api-2 (another version: wire 2), exclusive',
      ]),
    );
  });

  it('has its version in JSON, which others have not', () => {
    expect(lockToJson(view)).toMatchObject({ wireVersion: 2, waiting: [{ wireVersion: 2 }] });
    expect(lockToJson(heldView('goods:300'))).not.toHaveProperty('wireVersion');
  });
});

describe('JSON', () => {
  it('has null for what is not known', () => {
    expect(lockToJson(heldView('goods:300', { ...holderOf(undefined), expiresInMs: Infinity }))).toEqual({
      resource: 'goods:300',
      key: '{lock_goods:300}',
      isHeld: true,
      mode: 'exclusive',
      permits: null,
      holder: 'value of another system',
      identity: null,
      expiresInMs: null,
      fencingToken: null,
      heldForMs: null,
      others: [],
      waiting: [],
    });
  });

  it('has the same fields for a lock that nobody holds', () => {
    const [held, awaited] = [heldView('goods:300'), awaitedView('goods:300')].map(lockToJson);
    expect(Object.keys(awaited)).toEqual(Object.keys(held));
    expect(awaited).toMatchObject({ isHeld: false, holder: null, waiting: [{ identity: 'api-2', mode: 'exclusive' }] });
  });
});
