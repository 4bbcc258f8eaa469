// npm run lint:workflows: checks .github with actionlint and zizmor, and that every action is pinned to a commit.
// Both programs are looked for on the PATH. Then Go builds actionlint, and pip installs zizmor into .cache.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ACTIONLINT = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12';
const ZIZMOR = 'zizmor==1.32.0';
const FOLDER = '.github/workflows';
const CACHE = join(process.cwd(), '.cache/lint-workflows');

const files = readdirSync(FOLDER).map((name) => join(FOLDER, name));
const problems = [];

function run(command, args, env) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (error?.code === 'ENOENT') return 'missing';
  return status === 0 ? 'ok' : 'failed';
}

/** Runs the first of the programs that this machine has. */
function check(name, attempts) {
  let outcome = 'missing';
  for (const attempt of attempts) if (outcome === 'missing') outcome = attempt();
  if (outcome === 'missing') problems.push(`${name} is missing. Install it, or what builds it.`);
  if (outcome === 'failed') problems.push(`${name} found something.`);
  console.log(`${name}: ${outcome}`);
}

/** `uses: owner/action@<40 hex digits> # v1.2.3`. A tag can be moved to other code. */
const USES = /^\s*(?:- )?uses: (\S+)(.*)$/gm;
for (const file of files) {
  for (const [, action, comment] of readFileSync(file, 'utf8').matchAll(USES)) {
    if (action.startsWith('./') || (/@[0-9a-f]{40}$/.test(action) && /^ # v\d/.test(comment))) continue;
    problems.push(`${file}: ${action} is not pinned. Write the commit, and its version as a comment.`);
  }
}

check('actionlint', [
  () => run('actionlint', ['-color', ...files]),
  () => run('go', ['run', ACTIONLINT, ...files], { GOFLAGS: '-mod=mod' }),
]);

/** Returns the path of zizmor in the cache, where pip installs it once. */
function installZizmor() {
  const binary = join(CACHE, 'bin/zizmor');
  if (existsSync(binary)) return binary;
  const outcome = run('python3', ['-m', 'venv', CACHE]);
  if (outcome !== 'ok') return undefined;
  return run(join(CACHE, 'bin/pip'), ['install', '--quiet', '--only-binary', ':all:', ZIZMOR]) === 'ok' ? binary : undefined;
}

// Offline, because the address of a repository is no reason to send a token.
const ZIZMOR_ARGS = ['--offline', '--no-progress', '--persona', 'regular', '.github'];
check('zizmor', [
  () => run('zizmor', ZIZMOR_ARGS),
  () => {
    const binary = installZizmor();
    return binary === undefined ? 'missing' : run(binary, ZIZMOR_ARGS);
  },
]);

for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
