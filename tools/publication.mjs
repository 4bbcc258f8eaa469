// The name of the package and the address of its repository have one place: tools/publication.json.
//   name          of the package in the registry, such as "nestjs-redis-lock" or "@scope/nestjs-redis-lock"
//   repository    "https://github.com/<owner>/<repository>"
// Either is null as long as nobody has decided it.
//
//   node tools/publication.mjs             writes both into package.json and wherever the name stands
//   node tools/publication.mjs --check     fails if package.json says something else
//   node tools/publication.mjs --publish   fails if one is missing or the version is not ready. `npm publish` runs it
//   node tools/publication.mjs --pack      makes the README's links absolute, for the tarball
//   node tools/publication.mjs --unpack    makes them relative again
// All work on the current folder, which is the root of the repository.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const PLACE = 'tools/publication.json';
const NAME = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/;
const REPOSITORY = /^https:\/\/github\.com\/[\w-]+\/[\w.-]+$/;

/** Files in which a name is history, or is somebody else's. */
const KEPT = [/^test\/releases\//, /^package(?:-lock)?\.json$/, /\/package-lock\.json$/, /^tools\/publication\.json$/];

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
const unscoped = (name) => name.replace(/^@[^/]+\//, '');

/** Returns both values. Throws an error if one has the wrong form. */
function publication() {
  const { name, repository, ...others } = readJson(PLACE);
  const unknown = Object.keys(others);
  if (unknown.length > 0) throw new Error(`${PLACE} has ${unknown.join()}. Allowed are: name, repository.`);
  if (name !== null && !NAME.test(name)) {
    throw new Error(`${PLACE} has the name ${JSON.stringify(name)}. Allowed is the name of a package, or null.`);
  }
  if (repository !== null && !REPOSITORY.test(repository)) {
    throw new Error(
      `${PLACE} has the repository ${JSON.stringify(repository)}. ` +
        'Allowed is https://github.com/<owner>/<repository>, without .git, or null.',
    );
  }
  return { name, repository };
}

const FIELDS = ['homepage', 'bugs', 'repository'];

/** Returns the fields of package.json that follow from the address. */
function fieldsOf(repository) {
  if (repository === null) return {};
  return {
    homepage: `${repository}#readme`,
    bugs: { url: `${repository}/issues` },
    repository: { type: 'git', url: `git+${repository}.git` },
  };
}

/** Returns package.json as it has to be. The fields stand after the license. */
function expectedManifest(manifest, { name, repository }) {
  const entries = Object.entries({ ...manifest, name: name ?? manifest.name }).filter(([key]) => !FIELDS.includes(key));
  const at = entries.findIndex(([key]) => key === 'license');
  const expected = Object.fromEntries(entries.toSpliced(at + 1, 0, ...Object.entries(fieldsOf(repository))));
  if (name !== null && expected.bin) {
    expected.bin = Object.fromEntries(Object.values(expected.bin).map((file) => [unscoped(name), file]));
  }
  return expected;
}

/**
 * Returns a text with the other name. Names of channels, keys and cookies stay, because instances share them:
 * `nestjs-redis-lock:granted`, `{nestjs-redis-lock}|ping`, `nestjs-redis-lock-board`.
 */
function renamed(text, from, to) {
  const escaped = from.replaceAll(/[.@/]/g, '\\$&');
  const name = new RegExp(`(?<![\\w@{-])${escaped}(?![\\w:}-])`, 'g');
  return text.replaceAll(name, (_, at) => (text.slice(0, at).endsWith('.bin/') ? unscoped(to) : to));
}

function renameEverywhere(from, to) {
  const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8', maxBuffer: 1e8 }).split('\0');
  for (const file of files.filter((one) => one !== '' && !KEPT.some((pattern) => pattern.test(one)))) {
    const bytes = readFileSync(file);
    if (bytes.includes(0)) continue;
    const text = bytes.toString('utf8');
    const changed = renamed(text, from, to);
    if (changed !== text) writeFileSync(file, changed);
  }
}

function write() {
  const wanted = publication();
  const manifest = readJson('package.json');
  writeJson('package.json', expectedManifest(manifest, wanted));
  if (wanted.name === null || wanted.name === manifest.name) return;
  const lock = readJson('package-lock.json');
  lock.name = wanted.name;
  Object.assign(lock.packages[''], { name: wanted.name });
  writeJson('package-lock.json', lock);
  renameEverywhere(manifest.name, wanted.name);
  console.log(`${manifest.name} is ${wanted.name} now. Run: npm run format, npm run typecheck, npm test.`);
}

/** Returns what is wrong with package.json. */
function differences() {
  const manifest = readJson('package.json');
  const expected = expectedManifest(manifest, publication());
  const keys = ['name', 'bin', ...FIELDS];
  return keys
    .filter((key) => JSON.stringify(manifest[key]) !== JSON.stringify(expected[key]))
    .map((key) => `package.json has another ${key} than ${PLACE}: run node tools/publication.mjs.`);
}

/** Returns what differs in the workflow that publishes. Elsewhere both variables are missing. */
function wrongRun(version, repository) {
  const { GITHUB_REPOSITORY: running, GITHUB_REF_TYPE: type, GITHUB_REF_NAME: tag } = process.env;
  const found = [];
  if (running !== undefined && repository !== null && !repository.endsWith(`/${running}`)) {
    found.push(`The workflow runs in ${running}, and ${PLACE} has ${repository}.`);
  }
  if (type === 'tag' && tag !== `v${version}`) found.push(`The tag is ${tag}, and package.json has ${version}.`);
  return found;
}

/** Returns what is missing for a release. */
function missing() {
  const { version } = readJson('package.json');
  const values = Object.entries(publication());
  const found = values
    .filter(([, value]) => value === null)
    .map(([key]) => `The ${key} is missing: write it into ${PLACE}, and run node tools/publication.mjs.`);
  const heading = new RegExp(`^## ${version.replaceAll('.', '\\.')} \\(\\d{4}-\\d\\d-\\d\\d\\)$`, 'm');
  if (!heading.test(readFileSync('CHANGELOG.md', 'utf8'))) {
    found.push(`CHANGELOG.md has no "## ${version} (date)": run npm version, or node tools/release.mjs version.`);
  }
  return [...found, ...wrongRun(version, publication().repository)];
}

/** The address of the files of this version, as pages and as they are. A picture needs the second. */
function basesOf(repository) {
  const { version } = readJson('package.json');
  return { page: `${repository}/blob/v${version}/`, raw: `${repository}/raw/v${version}/` };
}

/** A link or a picture of Markdown to a file of the repository. */
const RELATIVE = /(!?\[[^\]]*\]\()(?!https?:|mailto:|#|\/)([^)\s]+\))/g;

function rewriteReadme(rewrite) {
  const { repository } = publication();
  if (repository === null) return;
  const text = readFileSync('README.md', 'utf8');
  writeFileSync('README.md', rewrite(text, basesOf(repository)));
}

const toAbsolute = (text, { page, raw }) =>
  text.replaceAll(RELATIVE, (_, label, path) => `${label}${label.startsWith('!') ? raw : page}${path}`);
const toRelative = (text, { page, raw }) => text.replaceAll(`](${page}`, '](').replaceAll(`](${raw}`, '](');

function report(problems) {
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

const COMMANDS = {
  '--write': write,
  '--check': () => report(differences()),
  '--publish': () => report([...differences(), ...missing()]),
  '--pack': () => rewriteReadme(toAbsolute),
  '--unpack': () => rewriteReadme(toRelative),
};

const [option = '--write'] = process.argv.slice(2);
if (!(option in COMMANDS)) {
  throw new Error(`${option} is unknown. Allowed are: ${Object.keys(COMMANDS).join(', ')}.`);
}
COMMANDS[option]();
