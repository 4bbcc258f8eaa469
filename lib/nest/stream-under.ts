import {
  from,
  isObservable,
  mergeMap,
  type Observable,
  of,
  type Observer,
  type Subscriber,
  type Subscription,
} from 'rxjs';
import { LockConfigError } from '../common/errors.js';

/** An Observable that is subscribed under a hold. */
interface Stream {
  /** Aborts the signal of the hold, because the subscriber has left. */
  abort(reason: unknown): void;
  subscribe(observer: Observer<unknown>): Subscription;
  /** Ends the hold. Rejects with the `LockLostError` of a lost lock. */
  end(workError?: unknown): Promise<void>;
}

/**
 * Passes an Observable on to a subscriber, and ends the hold before the end of the Observable is passed on.
 * Unsubscribing aborts the signal of the hold and ends the hold.
 */
export function streamUnder(subscriber: Subscriber<unknown>, stream: Stream): void {
  let ended = subscriber.closed;
  const end = (then: () => void, workError?: unknown): void => {
    ended = true;
    stream.end(workError).then(then, (lost: unknown) => subscriber.error(lost));
  };
  if (ended) return end(() => undefined);
  const subscription = stream.subscribe({
    next: (value) => subscriber.next(value),
    error: (error: unknown) => end(() => subscriber.error(error), error),
    complete: () => end(() => subscriber.complete()),
  });
  subscriber.add(subscription);
  subscriber.add(() => {
    if (ended) return;
    stream.abort(unsubscribedError());
    end(() => undefined);
  });
}

/** Returns a method's result as an Observable, even if the method returns something other than it declares. */
export function toObservable(result: unknown): Observable<unknown> {
  if (isObservable(result)) return result;
  // An async wrapper below our decorator returns a promise of the method's Observable.
  return from(Promise.resolve(result)).pipe(mergeMap((value) => (isObservable(value) ? value : of(value))));
}

export function unsubscribedError(): DOMException {
  return new DOMException('This Observable no longer has a subscriber.', 'AbortError');
}

/**
 * Returns the error for a method that returns an Observable without declaring it, whose lock would end with the method.
 *
 * @param purpose what the declaration is for: `@Locked can hold the lock`.
 */
export function undeclaredObservable(method: string, purpose: string): LockConfigError {
  return new LockConfigError(
    `${method} returns an Observable: declare \`Observable<…>\` as its return type, ` +
      `with Observable imported as a value, so that ${purpose} until it completes.`,
  );
}
