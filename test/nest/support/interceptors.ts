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

/** Returns an interceptor that commits after the handler, and records whether the lock was held then. */
function commitAs(name: string): new (control: Control) => NestInterceptor {
  @Injectable()
  class Commit implements NestInterceptor {
    constructor(private readonly control: Control) {}

    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(
        concatMap(async (value: unknown) => {
          // As a commit takes its time. A release that was sent before has reached Redis then.
          await rawRedis().ping();
          const locked = (await rawRedis().exists(this.control.key)) === 1;
          this.control.commits.push(`${name} ${locked ? 'under the lock' : 'without the lock'}`);
          return value;
        }),
      );
    }
  }
  return Commit;
}

export const HandlerCommit = commitAs('handler');
export const ControllerCommit = commitAs('controller');
export const AppCommit = commitAs('app');
export const EarlierModuleCommit = commitAs('earlier module');
export const LaterModuleCommit = commitAs('later module');

/** Subscribes to the handler in a later turn of the event loop. */
@Injectable()
export class SubscribeLate implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return from(new Promise<void>((resolve) => setImmediate(resolve))).pipe(switchMap(() => next.handle()));
  }
}

/** Fails the request when the test says so. */
@Injectable()
export class TimeoutInterceptor implements NestInterceptor {
  constructor(private readonly control: Control) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const over = from(this.control.timeout.promise).pipe(
      switchMap(() => throwError(() => new RequestTimeoutException())),
    );
    return race(over, next.handle());
  }
}

@Injectable()
export class Again implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(1));
  }
}

/** Calls the handler a second time during the first call, when the test says so. */
@Injectable()
export class SecondCall implements NestInterceptor {
  constructor(private readonly control: Control) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const over = from(this.control.timeout.promise).pipe(switchMap(() => next.handle()));
    return race(next.handle(), over);
  }
}

/** Responds at once, and calls the handler when the test says so. */
@Injectable()
export class RevalidateLater implements NestInterceptor {
  constructor(private readonly control: Control) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    from(this.control.timeout.promise)
      .pipe(switchMap(() => next.handle()))
      .subscribe();
    return of('stale');
  }
}

/** Responds in place of the handler when the test says so. */
@Injectable()
export class Fallback implements NestInterceptor {
  constructor(private readonly control: Control) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return race(from(this.control.timeout.promise).pipe(map(() => 'instead')), next.handle());
  }
}

@Injectable()
export class Cached implements NestInterceptor {
  intercept(): Observable<unknown> {
    return of('cached');
  }
}

/** Turns errors into responses. */
@Injectable()
export class CatchErrors implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(catchError((error: Error) => of(`instead of ${error.message}`)));
  }
}
