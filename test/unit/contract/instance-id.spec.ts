import { describe, expect, it } from '@jest/globals';
import { identityOf, isIdentity, newInstanceId } from '../../../lib/contract/instance-id.js';
import { defaultIdentity } from '../../../lib/options/resolve-options.js';

describe('an instance id', () => {
  it.each(['api-7f9c-31', 'a', '_', '-', 'node_1.example.com:6/31@x', 'x'.repeat(80), '_2d'])(
    'has the identity %s, in characters that keys and channels allow',
    (identity) => {
      expect(isIdentity(identity)).toBe(true);
      const id = newInstanceId(identity);
      expect(id).toMatch(/^[\w-]+$/);
      expect(id.length).toBeLessThanOrEqual(3 * 80 + 17);
      expect(identityOf(id)).toBe(identity);
      expect(newInstanceId(identity)).not.toBe(id);
    },
  );

  it('is random alone without an identity', () => {
    const id = newInstanceId('');
    expect(id).toMatch(/^[\w-]{16}$/);
    expect(identityOf(id)).toBeUndefined();
  });

  it('has the host name and the process id by default', () => {
    expect(defaultIdentity()).toMatch(new RegExp(`-${process.pid}$`));
    expect(isIdentity(defaultIdentity())).toBe(true);
  });
});

describe('an identity', () => {
  it.each(['a b', 'a\nb', 'ä', '{a}', 'a*', '[a]', 'a|b', 'x'.repeat(81), ' ', '\u0000', 'a%'])(
    '%j is refused',
    (text) => {
      expect(isIdentity(text)).toBe(false);
    },
  );

  it.each([
    ['of an id of an older version', 'Ab3_-x9Ab3_-x9Ab'],
    ['with a line break', `a_0ab-${'x'.repeat(16)}`],
    ['with an escape sequence', `a_1b_5b31m-${'x'.repeat(16)}`],
    ['that is too long', `${'x'.repeat(81)}-${'x'.repeat(16)}`],
    ['that is cut', `a_2-${'x'.repeat(16)}`],
    ['of the value of another system', 'secret of another system'],
    ['that is empty', ''],
  ])('%s is not an identity', (_what, id) => {
    expect(identityOf(id)).toBeUndefined();
  });
});
