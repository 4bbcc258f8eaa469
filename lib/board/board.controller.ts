import { Controller, Get, Inject, Post, Req, Res, type Type, UseGuards, VERSION_NEUTRAL } from '@nestjs/common';
import { LockConfigError, LockKeyError, messageOf } from '../core/errors.js';
import { API_HEADERS, PAGE_HEADERS, pageOf } from './board-page.js';
import type { LockBoardRequest, RedisLockBoardModuleExtras, RedisLockBoardOptions } from './board-options.js';
import { isSort } from './board-rows.js';
import { crossSiteProblem, hostProblem, isForeignRead, sessionOf } from './cross-site.js';
import { type BoardQuery, type ForcedRelease, LockBoard } from './lock-board.js';
import { callerOf } from './request-caller.js';

/** The token of the options that a factory may return. */
export const BOARD_OPTIONS = Symbol.for('nestjs-redis-lock:board-options');

/** The request of Express or Fastify, after its body was parsed. */
interface BoardRequest extends LockBoardRequest {
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  /** Express only. */
  readonly httpVersionMajor?: number;
}

/** The methods that the responses of Express and Fastify have both. */
interface BoardResponse {
  status(code: number): BoardResponse;
  header(name: string, value: string): unknown;
  /** Express only: `header` replaces the cookies that others have set. */
  append?(name: string, value: string): unknown;
  send(body: string): unknown;
}

const LONGEST_SEARCH = 200;
const LONGEST_RESOURCE = 1_024;
const MOST_PAGES = 1_000_000;

// Each route sends its response itself, so that an interceptor or a pipe of the application cannot change it.
class LockBoardRoutes {
  /** Whether the board has no guard of its own. */
  protected readonly isUnprotected: boolean = false;

  constructor(
    @Inject(LockBoard) private readonly board: LockBoard,
    @Inject(BOARD_OPTIONS) private readonly options: RedisLockBoardOptions<never>,
  ) {}

  @Get()
  page(@Req() request: BoardRequest, @Res() response: BoardResponse): void {
    const problem = this.readProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const { allowRelease = false } = this.options;
    const session = allowRelease ? sessionOf(request) : undefined;
    if (session !== undefined) addCookie(response, session.cookie);
    send(response, 200, PAGE_HEADERS, pageOf({ name: this.board.name, token: session?.token }));
  }

  @Get('state')
  async state(@Req() request: BoardRequest, @Res() response: BoardResponse): Promise<void> {
    const problem = this.readProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const state = await this.board.state(queryOf(request.query));
    // The page would keep the connection in use, and an HTTP server ends when all connections have ended.
    if (this.board.isClosed && request.httpVersionMajor === 1) response.header('Connection', 'close');
    send(response, 200, API_HEADERS, JSON.stringify(state));
  }

  @Post('release')
  async release(@Req() request: BoardRequest, @Res() response: BoardResponse): Promise<void> {
    if (this.options.allowRelease !== true) {
      return refuse(response, 403, 'This board does not release locks. The option allowRelease is not true.');
    }
    const problem = this.hostProblem(request) ?? crossSiteProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const release = releaseOf(request.body);
    if (release === undefined) {
      return refuse(response, 400, 'The body must be { "resource": "goods:300", "token": 17 }, or omit the token.');
    }
    try {
      const released = await this.board.release({ ...release, caller: callerOf(request, this.options.who) });
      if (!released) return refuse(response, 409, 'The lock is no longer held, or another holder has it now.');
      send(response, 200, API_HEADERS, JSON.stringify({ released }));
    } catch (error) {
      // 503: the lock may still have been released.
      const status = error instanceof LockKeyError ? 400 : error instanceof LockConfigError ? 501 : 503;
      refuse(response, status, messageOf(error));
    }
  }

  private readProblem(request: BoardRequest): string | undefined {
    return this.hostProblem(request) ?? (isForeignRead(request) ? 'Another site cannot read the board.' : undefined);
  }

  private hostProblem(request: BoardRequest): string | undefined {
    const { hosts = this.isUnprotected ? [] : undefined } = this.options;
    return hosts && hostProblem(request, hosts);
  }
}

/** Returns a controller with the routes of the board at this path, behind these guards. */
export function createBoardController({
  route = 'locks',
  guards = [],
  unprotected = false,
}: RedisLockBoardModuleExtras): Type {
  // Browsers cannot send a version in a header, so the page is the same in all versions of the application.
  @Controller({ path: route, version: VERSION_NEUTRAL })
  @UseGuards(...guards)
  class LockBoardController extends LockBoardRoutes {
    protected override readonly isUnprotected = unprotected;
  }
  // The page is not part of the application's API: @nestjs/swagger leaves it out.
  Reflect.defineMetadata('swagger/apiExcludeController', [true], LockBoardController);
  return LockBoardController;
}

function send(response: BoardResponse, status: number, headers: Readonly<Record<string, string>>, body: string): void {
  response.status(status);
  for (const [name, value] of Object.entries(headers)) response.header(name, value);
  response.send(body);
}

function refuse(response: BoardResponse, status: number, error: string): void {
  send(response, status, API_HEADERS, JSON.stringify({ error }));
}

function addCookie(response: BoardResponse, cookie: string): void {
  if (typeof response.append === 'function') response.append('Set-Cookie', cookie);
  else response.header('set-cookie', cookie);
}

function queryOf(query: Readonly<Record<string, unknown>> = {}): BoardQuery {
  const text = (name: string): string | undefined => {
    const value = query[name];
    return typeof value === 'string' ? value.slice(0, LONGEST_SEARCH) : undefined;
  };
  const page = Number(text('page') ?? 0);
  const sort = text('sort');
  return {
    search: text('search')?.trim() ?? '',
    sort: isSort(sort) ? sort : 'waiters',
    page: Number.isInteger(page) && page >= 0 && page <= MOST_PAGES ? page : 0,
    after: text('after'),
    locks: text('locks'),
    lost: text('lost'),
  };
}

/** Returns what the body of a request names to release. Undefined if it is not such a request. */
function releaseOf(body: unknown): Omit<ForcedRelease, 'caller'> | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { resource, token, shared } = body as Record<string, unknown>;
  const isShared = shared === true;
  if (typeof resource !== 'string' || resource === '' || resource.length > LONGEST_RESOURCE) return undefined;
  if (token === undefined || token === null) return { resource, token: undefined, isShared };
  const isToken = Number.isSafeInteger(token) && (token as number) > 0;
  return isToken ? { resource, token: token as number, isShared } : undefined;
}
