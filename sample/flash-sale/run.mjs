// npm start and npm run demo. It prints at once what it does, before anything large is loaded.
const MODULES = { start: './src/start.ts', demo: './src/demo.ts' };
const OLDEST_NODE = [20, 6];
const SLOW_MS = 10_000;
const PARENT_CHECK_MS = 500;

const isTerminal = process.stdout.isTTY;

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

function fail(message) {
  console.error(message);
  process.exit(1);
}

/** Loads a module of the sample. The sources run as they are, because a build checks all types and is slower. */
async function load(module) {
  try {
    await import('../../test/support/typescript-hooks.mjs');
    return await import(module);
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    return fail(`\n${error.message}\n\nA package is missing. Run npm ci first.`);
  }
}

/** Counts the end of the parent process as a closed terminal. npm passes a signal on to its shell only. */
function watchParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGHUP');
  }, PARENT_CHECK_MS);
  timer.unref();
}

const name = process.argv[2] ?? '';
const [major, minor] = process.versions.node.split('.').map(Number);
if (!Object.hasOwn(MODULES, name)) fail('Run npm start or npm run demo.');
if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
  fail(`The sample runs on Node from ${OLDEST_NODE.join('.')}. This is ${process.versions.node}.`);
}

watchParent();
const { run } = await step('Loading the flash sale', () => load(MODULES[name]));
await run(step);
