// Entries with other settings.

/** Other settings are measured in fewer rounds. */
const ROUNDS = 2;

/** Waits as the library does if nothing is configured. If it gives up, its caller tries again. */
export const atDefaults = (entry) => ({
  ...entry,
  name: `${entry.name}, defaults`,
  variantOf: entry.name,
  waiting: entry.defaults,
  rounds: ROUNDS,
  open: async (url, options) => persistent(await entry.open(url, { ...options, atDefaults: true }), entry.givesUp),
});

const withPipelining = (autoPipelining, what) => (entry) => ({
  ...entry,
  name: `${entry.name}, ${what}`,
  variantOf: entry.name,
  rounds: ROUNDS,
  open: (url, options) => entry.open(url, { ...options, autoPipelining }),
});

export const pipelined = withPipelining(true, 'automatic pipelining');
export const unpipelined = withPipelining(false, 'no pipelining');

function persistent(opened, givesUp = () => false) {
  let gaveUp = 0;
  const acquire = async (key) => {
    for (;;) {
      try {
        return await opened.acquire(key);
      } catch (error) {
        if (!givesUp(error)) throw error;
        gaveUp += 1;
      }
    }
  };
  return { ...opened, acquire, gaveUp: () => gaveUp };
}
