// What a release changes in the tree, and what is published about it.
//   node tools/release.mjs version [date]     for `npm version`, which runs it: writes the version of package.json into
//                                             lib/core/version.ts, and makes Unreleased its section in CHANGELOG.md
//   node tools/release.mjs notes [version]    prints the section of a version, for the release on GitHub
// It works on the current folder, which is the root of the repository.
import { readFileSync, writeFileSync } from 'node:fs';

const CHANGELOG = 'CHANGELOG.md';
const SOURCE = 'lib/core/version.ts';
const UNRELEASED = '## Unreleased\n';

const { version: ownVersion } = JSON.parse(readFileSync('package.json', 'utf8'));
const changelog = readFileSync(CHANGELOG, 'utf8');

/** Returns the text below a heading, or undefined. The heading may end with a date. */
function sectionOf(version) {
  const escaped = version.replaceAll(/[.+]/g, '\\$&');
  const found = new RegExp(`^## ${escaped}(?: \\([\\d-]+\\))?\\n([^]*?)(?=^## |(?![^]))`, 'm').exec(changelog);
  return found?.[1].trim();
}

function version(date = new Date().toISOString().slice(0, 10)) {
  if (!/^\d{4}-\d\d-\d\d$/.test(date)) throw new Error(`The date is ${date}. Allowed is YYYY-MM-DD.`);
  if (sectionOf(ownVersion) !== undefined) throw new Error(`${CHANGELOG} has a section of ${ownVersion} already.`);
  if (!sectionOf('Unreleased')) throw new Error(`${CHANGELOG} has nothing under Unreleased.`);
  const source = readFileSync(SOURCE, 'utf8');
  const changed = source.replace(/VERSION = '[^']*'/, `VERSION = '${ownVersion}'`);
  if (!changed.includes(`VERSION = '${ownVersion}'`)) throw new Error(`${SOURCE} has no VERSION.`);
  writeFileSync(SOURCE, changed);
  writeFileSync(CHANGELOG, changelog.replace(UNRELEASED, `${UNRELEASED}\n## ${ownVersion} (${date})\n`));
}

function notes(wanted = ownVersion) {
  const section = sectionOf(wanted.replace(/^v/, ''));
  if (!section) throw new Error(`${CHANGELOG} has no section of ${wanted}.`);
  console.log(section);
}

const COMMANDS = { version, notes };
const [command = '', argument] = process.argv.slice(2);
if (!(command in COMMANDS)) throw new Error(`The command is "${command}". Allowed are: version, notes.`);
COMMANDS[command](argument);
