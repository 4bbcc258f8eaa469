// npm start. It prints at once what it does, before anything large is loaded.
const SLOW_MS = 10_000;
const PARENT_CHECK_MS = 500;

const isTerminal = process.stdout.isTTY === true;

/**
 * Runs `work` and shows what it is and how long it takes: on a terminal in one line that changes, else in few lines.
 * `work` gets a function that shows a detail.
 */
async function step(what, work) {
  const startedAt = performance.now();
  const seconds = () => Math.floor((performance.now() - startedAt) / 1_000);
  let detail = '';
  const show = () => {
    const line = `${what} …${detail && ` ${detail}`}${seconds() > 0 ? ` (${seconds()} s)` : ''}`;
    process.stdout.write(isTerminal ? `\r\x1b[2K${line.slice(0, (process.stdout.columns || 80) - 1)}` : `${line}\n`);
  };
  show();
  const timer = setInterval(show, isTerminal ? 1_000 : SLOW_MS);
  try {
    return await work((text) => {
      detail = text;
      show();
    });
  } finally {
    clearInterval(timer);
    if (isTerminal) process.stdout.write('\n');
  }
}

// npm passes no signal on. The end of its shell counts as one.
const parent = process.ppid;
const watch = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(watch);
  process.kill(process.pid, 'SIGHUP');
}, PARENT_CHECK_MS);
watch.unref();

const { start } = await step('Loading the flash sale', async () => {
  // The sources run as they are, which takes one second. `nest build` takes ten, because it checks all types.
  await import('../../test/support/typescript-hooks.mjs');
  return import('./src/start.ts');
});
await start(step);
