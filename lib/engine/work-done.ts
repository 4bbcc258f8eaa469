/**
 * Refuses a call with `onceMs`, because an earlier run ended without an error. No caller gets it: `using` and `@Locked`
 * return undefined in its place.
 */
export class WorkDone extends Error {
  override readonly name = 'WorkDone';
}
