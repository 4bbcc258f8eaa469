import { isIP } from 'node:net';

/** The part of a request of Express or Fastify that is checked. */
export interface BoardRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/**
 * Returns why a request that changes something is refused. Returns undefined if it comes from the board's own page: the
 * browser says so, and no HTML form can have sent it.
 */
export function crossSiteProblem(request: BoardRequest): string | undefined {
  if (!/^application\/json(?:\s*;|$)/i.test(headerOf(request, 'content-type') ?? '')) {
    return 'The content type of a release must be application/json.';
  }
  if (!isSameOrigin(request)) {
    return 'This request does not come from the page of the board. A proxy must pass on the Host header.';
  }
  return undefined;
}

/**
 * Returns why a request to this host name is refused. Returns undefined if it may be served: the host is localhost, an
 * IP address, or one of `allowed`. A site whose name resolves to this machine (DNS rebinding) is same-origin to a
 * browser. Only the host name gives it away.
 */
export function hostProblem(request: BoardRequest, allowed: readonly string[]): string | undefined {
  const given = hostOf(request) ?? '';
  const address = `http://${given}`;
  const name = URL.canParse(address) ? new URL(address).hostname.replace(/\.$/, '') : '';
  const isAllowed = (each: string): boolean => {
    const host = each.toLowerCase();
    return host.startsWith('.') ? name === host.slice(1) || name.endsWith(host) : name === host;
  };
  const isLocal = name === 'localhost' || name.endsWith('.localhost') || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0;
  if (name !== '' && (isLocal || allowed.some(isAllowed))) return undefined;
  return 'The board is not served under this host name. Add the name to the hosts option.';
}

/**
 * Returns whether another site tries to read a route with the viewer's cookies. Matters if the application's CORS
 * options allow every origin. A navigation to the page is allowed, because a link may be anywhere.
 */
export function isForeignRead(request: BoardRequest): boolean {
  const site = headerOf(request, 'sec-fetch-site');
  // Over plain HTTP a browser sends `Origin` with cross-site reads, but not with navigations.
  if (site === undefined) return headerOf(request, 'origin') !== undefined && !isOwnOrigin(request);
  if (site === 'same-origin' || site === 'none') return false;
  return headerOf(request, 'sec-fetch-mode') !== 'navigate';
}

/** Browsers send `Sec-Fetch-Site` over HTTPS and to localhost. Otherwise they send `Origin` with each POST. */
function isSameOrigin(request: BoardRequest): boolean {
  const site = headerOf(request, 'sec-fetch-site');
  return site === undefined ? isOwnOrigin(request) : site === 'same-origin';
}

function isOwnOrigin(request: BoardRequest): boolean {
  const origin = headerOf(request, 'origin');
  const host = hostOf(request);
  return origin !== undefined && host !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}

function hostOf(request: BoardRequest): string | undefined {
  return headerOf(request, 'host') ?? headerOf(request, ':authority');
}

function headerOf({ headers }: BoardRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : value?.[0];
}
