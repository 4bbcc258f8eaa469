import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { decodeForced, decodeHandoff } from '../../../../../lib/stores/token/handoff/handoff-message.js';
import { randomFrom } from '../../../../support/random.js';

const SECRET = 'k3y_of-the-entry';
const TIME = 1795251048038314;
const KEY = '{lock_goods}:300';

const messageOf = (text: string): string => `${createHash('sha1').update(`${text} ${SECRET}`).digest('hex')} ${text}`;

const TEXT = `12 ${TIME} 17 ${TIME} 1000  ${KEY}`;
const MESSAGE = messageOf(TEXT);
const GRANT = { token: TIME, tokens: 17, grantedAt: TIME, leaseMs: 1000, mode: 'exclusive', key: KEY };

describe('decodeHandoff', () => {
  it('returns the grant of a message that a script has made', () => {
    expect(decodeHandoff(MESSAGE, SECRET)).toEqual({ attempt: '12', grant: GRANT });
  });

  it.each([
    ['*', 'shared'],
    ['3', 3],
  ])('returns the mode %s and any key', (mode, decoded) => {
    const message = messageOf(`12 ${TIME} 1 ${TIME} 1000 ${mode} a key\nof another system`);
    expect(decodeHandoff(message, SECRET)?.grant).toMatchObject({ mode: decoded, key: 'a key\nof another system' });
  });

  it('returns no moment of a grant if the waiter only has to repeat its request', () => {
    const message = messageOf(`12 0 1 0 1000  ${KEY}`);
    expect(decodeHandoff(message, SECRET)?.grant).toEqual({ ...GRANT, token: 0, tokens: 1, grantedAt: undefined });
  });

  it('returns no grant for another secret', () => {
    expect(decodeHandoff(MESSAGE, 'k3y_of-another')).toEqual({ attempt: '12', grant: undefined });
  });

  it.each([
    '',
    'hello',
    TEXT,
    `${MESSAGE} `,
    ` ${MESSAGE}`,
    `${MESSAGE}\n`,
    MESSAGE.replace('17', '-1'),
    MESSAGE.toUpperCase(),
  ])('returns nothing for %j', (message) => {
    expect(decodeHandoff(message, SECRET)?.grant).toBeUndefined();
  });

  it('returns no grant for any message that differs in one place', () => {
    const altered = Array.from(MESSAGE, (own, at) =>
      ['', '0', '7', 'a', ' ', '\0', own + own].map((put) => MESSAGE.slice(0, at) + put + MESSAGE.slice(at + 1)),
    ).flat();
    const accepted = altered.filter((message) => decodeHandoff(message, SECRET)?.grant !== undefined);
    expect(new Set(accepted)).toEqual(new Set([MESSAGE]));
  });

  it('returns no grant for random texts', () => {
    const random = randomFrom(1);
    const alphabet = '0123456789 abcdef:/{}\u0000é';
    const texts = Array.from({ length: 2_000 }, () => {
      const length = Math.floor(random() * 120);
      return Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join('');
    });
    expect(texts.filter((text) => decodeHandoff(text, SECRET)?.grant !== undefined)).toEqual([]);
  });
});

describe('the messages without a grant', () => {
  it('name a key, which may contain any character', () => {
    expect(decodeForced(`forced ${KEY}`)).toBe(KEY);
    expect(decodeForced('forced a key\nof another system')).toBe('a key\nof another system');
  });

  it.each(['', 'forced', `freed ${KEY}`, ` forced ${KEY}`, MESSAGE])(
    'are not read from any other text: %j',
    (message) => {
      expect(decodeForced(message)).toBeUndefined();
    },
  );
});
