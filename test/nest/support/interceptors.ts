import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  RequestTimeoutException,
} from '@nestjs/common';
import { catchError, concatMap, from, map, type Observable, of, race, retry, switchMap, throwError } from 'rxjs';
import { type Deferred, deferred } from '../../support/async.js';
import { rawRedis } from './app.js';

/** What the test controls and observes of the interceptors. */
@Injectable()
export class Control {
  readonly commits: string[] = [];
  readonly timeout: Deferred<void> = deferred();
  key = '';
}

/** Returns a class of interceptors that do this around the handler. */
function interceptor(around: (next: CallHandler, control: Control) => Observable<unknown>) {
  @Injectable()
  class Interceptor implements NestInterceptor {
    constructor(private readonly control: Control) {}

    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return around(next, this.control);
    }
  }
  return Interceptor;
}

/** Returns an interceptor that commits after the handler, and records whether the lock was held then. */
const commitAs = (name: string) =>
  interceptor((next, control) =>
    next.handle().pipe(
      concatMap(async (value: unknown) => {
        // As a commit takes its time. A release that was sent before has reached Redis then.
        await rawRedis().ping();
        const locked = (await rawRedis().exists(control.key)) === 1;
        control.commits.push(`${name} ${locked ? 'under the lock' : 'without the lock'}`);
        return value;
      }),
    ),
  );

export const HandlerCommit = commitAs('handler');
export const ControllerCommit = commitAs('controller');
export const AppCommit = commitAs('app');
export const EarlierModuleCommit = commitAs('earlier module');
export const LaterModuleCommit = commitAs('later module');

/** Subscribes to the handler in a later turn of the event loop. */
export const SubscribeLate = interceptor((next) =>
  from(new Promise<void>((resolve) => setImmediate(resolve))).pipe(switchMap(() => next.handle())),
);

const whenTold = ({ timeout }: Control): Observable<void> => from(timeout.promise);
const timedOut = switchMap(() => throwError(() => new RequestTimeoutException()));

/** Fails the request when the test says so. */
export const TimeoutInterceptor = interceptor((next, control) => race(whenTold(control).pipe(timedOut), next.handle()));

export const Again = interceptor((next) => next.handle().pipe(retry(1)));

/** Calls the handler a second time during the first call, when the test says so. */
export const SecondCall = interceptor((next, control) =>
  race(next.handle(), whenTold(control).pipe(switchMap(() => next.handle()))),
);

/** Responds at once, and calls the handler when the test says so. */
export const RevalidateLater = interceptor((next, control) => {
  whenTold(control)
    .pipe(switchMap(() => next.handle()))
    .subscribe();
  return of('stale');
});

/** Responds in place of the handler when the test says so. */
export const Fallback = interceptor((next, control) =>
  race(whenTold(control).pipe(map(() => 'instead')), next.handle()),
);

export const Cached = interceptor(() => of('cached'));

/** Turns errors into responses. */
export const CatchErrors = interceptor((next) =>
  next.handle().pipe(catchError((error: Error) => of(`instead of ${error.message}`))),
);
