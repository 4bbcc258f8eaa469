/** A promise that the test settles. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

/** Returns a promise and the functions that settle it. */
export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}

/** Records how a promise settles, without waiting for it. Both fields are absent while it is pending. */
export function outcome<T>(promise: Promise<T>): { value?: T; error?: unknown } {
  const settled: { value?: T; error?: unknown } = {};
  promise.then(
    (value) => (settled.value = value),
    (error: unknown) => (settled.error = error),
  );
  return settled;
}

/** Ends a test that hangs, before jest does. It proves nothing, so it is far from what any test needs. */
const HANGS_AFTER_MS = 120_000;

/**
 * Polls every 5 ms until `holds` returns true. Throws an error that names `what` after `withinMs`, which only campaigns
 * that measure set.
 */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = HANGS_AFTER_MS,
): Promise<void> {
  for (const end = performance.now() + withinMs; ; await new Promise((resolve) => setTimeout(resolve, 5))) {
    if (await holds()) return;
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`);
  }
}
