import { createHook } from 'node:async_hooks';

/** Returns how many promises are made while `work` runs. */
export async function promisesOf(work: () => Promise<unknown>): Promise<number> {
  let count = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') count += 1;
    },
  });
  hook.enable();
  try {
    await work();
  } finally {
    hook.disable();
  }
  return count;
}
