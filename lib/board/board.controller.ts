import { Controller, Get, Inject, Logger, Post, Req, Res, type Type, UseGuards, VERSION_NEUTRAL } from '@nestjs/common';
import { LockConfigError, LockKeyError, messageOf } from '../common/errors.js';
import { shortened, withoutForgery } from '../common/format-value.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import type { RedisLockBoardOptions } from './board-options.js';
import { type BoardRequest, crossSiteProblem, hostProblem, isForeignRead } from './cross-site.js';
import { LockBoard, type SeenHold } from './lock-board.js';
import { API_HEADERS, PAGE_HEADERS, pageOf } from './page.js';

/** The token of the {@link BoardSettings}. */
export const BOARD_SETTINGS = Symbol.for('nestjs-redis-lock:board-settings');

/** The options of a board that its routes read. */
export interface BoardSettings extends Pick<RedisLockBoardOptions, 'allowRelease' | 'hosts' | 'unprotected'> {
  readonly name: string;
  readonly route: string;
}

/** The request of Express or Fastify, after its body was parsed. */
interface RoutedRequest extends BoardRequest {
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  /** The remote address. */
  readonly ip?: string | undefined;
  /** What a guard or a strategy of Passport has set. */
  readonly user?: unknown;
}

/** The methods that the responses of Express and Fastify have both. */
interface RoutedResponse {
  status(code: number): RoutedResponse;
  header(name: string, value: string): unknown;
  send(body: string): unknown;
}

const LONGEST_SEARCH = 200;
const LONGEST_RESOURCE = 1_024;
/** The properties of a user that identify it, best first. */
const USER_NAMES = ['username', 'email', 'name', 'id', 'sub'] as const;

// Each route sends its response itself, so that an interceptor or a pipe of the application cannot change it.
class LockBoardRoutes {
  private readonly logger = new Logger('RedisLockBoard');

  constructor(
    @Inject(LockBoard) private readonly board: LockBoard,
    @Inject(BOARD_SETTINGS) private readonly settings: BoardSettings,
  ) {}

  @Get()
  page(@Req() request: RoutedRequest, @Res() response: RoutedResponse): void {
    const problem = this.readProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const { name, allowRelease = false } = this.settings;
    send(response, 200, PAGE_HEADERS, pageOf({ name, allowRelease }));
  }

  @Get('state')
  async state(@Req() request: RoutedRequest, @Res() response: RoutedResponse): Promise<void> {
    const problem = this.readProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const search = request.query?.['search'];
    const text = typeof search === 'string' ? search.slice(0, LONGEST_SEARCH).trim() : '';
    send(response, 200, API_HEADERS, JSON.stringify(await this.board.state(text)));
  }

  @Post('release')
  async release(@Req() request: RoutedRequest, @Res() response: RoutedResponse): Promise<void> {
    if (this.settings.allowRelease !== true) {
      return refuse(response, 403, 'This board does not release locks. The option allowRelease is not true.');
    }
    const problem = this.hostProblem(request) ?? crossSiteProblem(request);
    if (problem !== undefined) return refuse(response, 403, problem);
    const hold = holdOf(request.body);
    if (hold === undefined) {
      return refuse(response, 400, 'The body must be { "resource": "goods:300", "holder": "…", "token": 17 }.');
    }
    try {
      const released = await this.board.release(hold);
      this.log(request, hold, released ? 'it was released by force.' : 'it is no longer held.');
      if (!released) return refuse(response, 409, 'The lock is no longer held, or another holder has it now.');
      send(response, 200, API_HEADERS, JSON.stringify({ released }));
    } catch (error) {
      this.log(request, hold, `the release failed. ${messageOf(error)}`);
      // 503: the lock may still have been released.
      const status = error instanceof LockKeyError ? 400 : error instanceof LockConfigError ? 501 : 503;
      refuse(response, status, messageOf(error));
    }
  }

  private readProblem(request: RoutedRequest): string | undefined {
    return this.hostProblem(request) ?? (isForeignRead(request) ? 'Another site cannot read the board.' : undefined);
  }

  private hostProblem(request: RoutedRequest): string | undefined {
    const { unprotected, hosts = unprotected === true ? [] : undefined } = this.settings;
    return hosts && hostProblem(request, hosts);
  }

  private log(request: RoutedRequest, { resource, token }: SeenHold, outcome: string): void {
    const { name } = this.settings;
    const lock = `${shortened(resource)}${token === undefined ? '' : ` (fencing token ${token})`}`;
    const of = name === DEFAULT_INSTANCE ? '' : ` of the module instance ${name}`;
    this.logger.warn(withoutForgery(`${callerOf(request)} asked on the board to release ${lock}${of}: ${outcome}`));
  }
}

/** Returns a controller with the routes of the board at this path, behind these guards. */
export function boardControllerAt(route: string, guards: NonNullable<RedisLockBoardOptions['guards']>): Type {
  // Browsers cannot send a version in a header, so the page is the same in all versions of the application.
  @Controller({ path: route, version: VERSION_NEUTRAL })
  @UseGuards(...guards)
  class LockBoardController extends LockBoardRoutes {}
  // The page is not part of the application's API: @nestjs/swagger leaves it out.
  Reflect.defineMetadata('swagger/apiExcludeController', [true], LockBoardController);
  return LockBoardController;
}

function send(response: RoutedResponse, status: number, headers: Readonly<Record<string, string>>, body: string): void {
  response.status(status);
  for (const [name, value] of Object.entries(headers)) response.header(name, value);
  response.send(body);
}

function refuse(response: RoutedResponse, status: number, error: string): void {
  send(response, status, API_HEADERS, JSON.stringify({ error }));
}

/** Returns the hold that the body of a request names. Undefined if it names none. */
function holdOf(body: unknown): SeenHold | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { resource, holder, token } = body as Record<string, unknown>;
  if (typeof resource !== 'string' || resource === '' || resource.length > LONGEST_RESOURCE) return undefined;
  if (typeof holder !== 'string') return undefined;
  if (token === undefined) return { resource, holder, token };
  return Number.isSafeInteger(token) && (token as number) > 0
    ? { resource, holder, token: token as number }
    : undefined;
}

/** Returns who sends a request: the name or id of its user, if it has one, and the remote address. */
function callerOf({ user, ip = 'an unknown address' }: RoutedRequest): string {
  const isObject = typeof user === 'object' && user !== null;
  const names = isObject ? USER_NAMES.map((property) => (user as Record<string, unknown>)[property]) : [user];
  const name = names.find(isName);
  return name === undefined ? ip : `${shortened(String(name))} at ${ip}`;
}

function isName(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}
