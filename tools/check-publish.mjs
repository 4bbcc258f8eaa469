// Fails if the package is not ready to be published, and says why. `npm publish` runs it. With
// `npm publish --dry-run` it only says what is missing, so that the rest can be tried before the address is known.
import { readFileSync } from 'node:fs';

const read = (file) => readFileSync(file, 'utf8');
const { version, repository } = JSON.parse(read('package.json'));
const { GITHUB_REF_TYPE: refType, GITHUB_REF_NAME: refName, npm_config_dry_run: dryRun } = process.env;
const links = [...read('README.md').matchAll(/\]\((?!https?:|#|mailto:)[^)]+\)/g)].length;

const checks = {
  // The only place of the address. npm makes "homepage" and "bugs" of it, and the site its links.
  [`package.json has no "repository" with the "url" git+https://github.com/<owner>/<repository>.git. Without it, ${links} links of README.md lead nowhere on the page of the registry, and npm refuses the provenance.`]:
    /^git\+https:\/\/github\.com\/[\w-]+\/[\w.-]+\.git$/.test(repository?.url),
  'README.md says how to install from a clone. Remove these lines.': !read('README.md').includes('npm pack'),
  [`the version of lib/common/version.ts is not ${version}, as in package.json.`]: read(
    'lib/common/version.ts',
  ).includes(`'${version}'`),
  [`CHANGELOG.md has no section "## ${version} (<date>)".`]: read('CHANGELOG.md').includes(`\n## ${version} (20`),
  [`The tag is ${refName}. It has to be v${version}.`]: refType !== 'tag' || refName === `v${version}`,
};

const problems = Object.keys(checks).filter((problem) => !checks[problem]);
for (const problem of problems) console.error(problem);
if (problems.length > 0 && dryRun === 'true') console.error('This is a dry run. npm publish would stop here.');
else if (problems.length > 0) process.exitCode = 1;
