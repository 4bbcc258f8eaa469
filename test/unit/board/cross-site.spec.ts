import { describe, expect, it } from '@jest/globals';
import { crossSiteProblem, hostProblem, isForeignRead, sessionOf } from '../../../lib/board/cross-site.js';
import { callerOf } from '../../../lib/board/request-caller.js';

const { token, cookie } = sessionOf({ headers: {} });
const OWN = {
  host: 'app.example:8080',
  origin: 'http://app.example:8080',
  'content-type': 'application/json',
  cookie: `theme=dark; ${cookie.split(';')[0]}`,
  'x-lock-board-token': token,
};
const problemOf = (changes: Record<string, string | undefined>): string | undefined =>
  crossSiteProblem({ headers: { ...OWN, ...changes } });

describe('a release', () => {
  it('is accepted from the page', () => {
    expect(problemOf({})).toBeUndefined();
    expect(problemOf({ 'content-type': 'application/json; charset=utf-8' })).toBeUndefined();
    expect(problemOf({ 'sec-fetch-site': 'same-origin' })).toBeUndefined();
    // A proxy has changed the header Host. The browser knows better.
    expect(problemOf({ host: 'internal', 'sec-fetch-site': 'same-origin' })).toBeUndefined();
  });

  it.each([
    ['another origin', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://app.example:9090' }],
    ['no origin', { origin: undefined }],
    ['an opaque origin', { origin: 'null' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['a sibling domain', { 'sec-fetch-site': 'same-site' }],
    ['an address that was typed', { 'sec-fetch-site': 'none' }],
  ])('is refused from %s', (_, changes) => {
    expect(problemOf(changes)).toContain('does not come from the page');
  });

  it.each([
    ['no token', { 'x-lock-board-token': undefined }],
    ['an empty token', { 'x-lock-board-token': '' }],
    ['another token', { 'x-lock-board-token': 'a'.repeat(32) }],
    ['no cookie', { cookie: undefined }],
    ['an empty cookie', { cookie: 'nestjs-redis-lock-board=', 'x-lock-board-token': '' }],
  ])('is refused with %s', (_, changes) => {
    expect(problemOf(changes)).toContain('the token of the page');
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'text/plain; application/json',
    undefined,
  ])('is refused with the content type %s', (type) => {
    expect(problemOf({ 'content-type': type })).toContain('application/json');
  });
});

describe('the host name of a request', () => {
  const problemWith = (host: string | undefined, allowed: readonly string[] = []): string | undefined =>
    hostProblem({ headers: { host } }, allowed);

  it.each([
    'localhost',
    'LOCALHOST:3000',
    'localhost.',
    'app.localhost:3000',
    '127.0.0.1:3000',
    '[::1]:3000',
    '10.0.0.7',
  ])('may be %s', (host) => expect(problemWith(host)).toBeUndefined());

  it.each([
    'evil.example',
    'evil.example:3000',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'notlocalhost',
    'evil.example/localhost',
    'evil.example#.localhost',
    'localhost@evil.example',
    '',
    ' ',
    undefined,
  ])('may not be %s', (host) => expect(problemWith(host)).toContain('Add the name to the hosts option'));

  it('may be one of those that are listed, in any case and on any port', () => {
    const allowed = ['Admin.example.com', '.example.org'];
    for (const host of ['admin.example.com', 'ADMIN.example.com:8443', 'example.org', 'a.b.example.org.'])
      expect(problemWith(host, allowed)).toBeUndefined();
    for (const host of ['example.com', 'x.admin.example.com', 'notexample.org', 'example.org.evil.example'])
      expect(problemWith(host, allowed)).toBeDefined();
    expect(hostProblem({ headers: { ':authority': 'example.org' } }, allowed)).toBeUndefined();
  });
});

describe('the session of a browser', () => {
  it('is kept, unless it is not a token', () => {
    expect(sessionOf({ headers: { cookie: OWN.cookie } }).token).toBe(token);
    expect(sessionOf({ headers: { cookie: 'nestjs-redis-lock-board=<script>' } }).token).toMatch(/^[\w-]{32}$/);
    expect(cookie).toMatch(/; HttpOnly; SameSite=Lax$/);
    expect(sessionOf({ headers: {}, protocol: 'https' }).cookie).toMatch(/; HttpOnly; SameSite=Lax; Secure$/);
  });
});

describe('a read', () => {
  it('is refused to a script of another site, and allowed to a link', () => {
    const from = (site: string, mode: string) =>
      isForeignRead({ headers: { 'sec-fetch-site': site, 'sec-fetch-mode': mode } });
    expect([from('cross-site', 'cors'), from('same-site', 'cors'), from('cross-site', 'no-cors')]).toEqual([
      true,
      true,
      true,
    ]);
    expect([from('same-origin', 'cors'), from('none', 'navigate'), from('cross-site', 'navigate')]).toEqual([
      false,
      false,
      false,
    ]);
  });

  it('is judged by its origin over plain HTTP', () => {
    const from = (origin?: string) => isForeignRead({ headers: { host: 'app.example', origin } });
    expect([from('https://evil.example'), from('null'), from('http://app.example:81')]).toEqual([true, true, true]);
    expect([from('http://app.example'), from()]).toEqual([false, false]);
  });
});

describe('the caller of a request', () => {
  const of = (request: object, who?: (request: never) => unknown) => callerOf({ headers: {}, ...request }, who);

  it.each([
    [{ user: { username: 'alice', id: 3 }, ip: '10.0.0.1' }, 'alice at 10.0.0.1'],
    [{ user: { id: 3 }, ip: '10.0.0.1' }, '3 at 10.0.0.1'],
    [{ user: 'alice', ip: '10.0.0.1' }, 'alice at 10.0.0.1'],
    [{ user: { roles: [] }, ip: '10.0.0.1' }, '10.0.0.1'],
    [{ ip: '10.0.0.1' }, '10.0.0.1'],
    [{}, 'an unknown address'],
  ])('%j is %s', (request, expected) => {
    expect(of(request)).toBe(expected);
  });

  it('is what the option returns, on one line', () => {
    expect(of({}, () => 'eve\n[Nest] forged\u202e')).toBe('eve\\u{a}[Nest] forged\\u{202e}');
    expect(of({}, () => 'x'.repeat(5_000)).length).toBeLessThan(400);
    const failing = (): never => {
      throw new Error('no session');
    };
    expect(of({}, failing)).toBe('somebody (the option who failed: no session)');
  });
});
