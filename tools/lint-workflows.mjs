// npm run lint:workflows: checks .github with actionlint and zizmor. A program that is not on the PATH is built by Go
// (actionlint), or is installed by pip into .cache (zizmor).
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const ACTIONLINT = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12';
const ZIZMOR = 'zizmor==1.32.0';
const WORKFLOWS = '.github/workflows';
const CACHE = join(process.cwd(), '.cache/lint-workflows');

const files = readdirSync(WORKFLOWS).map((name) => join(WORKFLOWS, name));

/** Runs a program. Returns "missing" if this machine does not have it. */
function run(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (error?.code === 'ENOENT') return 'missing';
  return status === 0 ? 'passed' : 'failed';
}

function actionlint() {
  const outcome = run('actionlint', files);
  return outcome === 'missing' ? run('go', ['run', ACTIONLINT, ...files]) : outcome;
}

/** Returns the path of zizmor, which pip installs once. Returns undefined if it cannot. */
function installedZizmor() {
  const binary = join(CACHE, 'bin/zizmor');
  if (existsSync(binary)) return binary;
  if (run('python3', ['-m', 'venv', CACHE]) !== 'passed') return undefined;
  const pip = ['install', '--quiet', '--disable-pip-version-check', '--only-binary', ':all:', ZIZMOR];
  return run(join(CACHE, 'bin/pip'), pip) === 'passed' ? binary : undefined;
}

function zizmor() {
  // Its other checks send a token to GitHub.
  const args = ['--offline', '--no-progress', '.github'];
  const outcome = run('zizmor', args);
  if (outcome !== 'missing') return outcome;
  const binary = installedZizmor();
  return binary === undefined ? 'missing' : run(binary, args);
}

const outcomes = Object.entries({ actionlint, zizmor }).map(([name, check]) => [name, check()]);
for (const [name, outcome] of outcomes) console.log(`${name}: ${outcome}`);
process.exitCode = outcomes.every(([, outcome]) => outcome === 'passed') ? 0 : 1;
