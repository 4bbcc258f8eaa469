// Fails if the package is not ready to be published, and says why. `npm publish` runs it.
import { readFileSync } from 'node:fs';

const read = (file) => readFileSync(file, 'utf8');
const { private: isPrivate, version, repository } = JSON.parse(read('package.json'));
const { GITHUB_REF_TYPE: refType, GITHUB_REF_NAME: refName } = process.env;

const checks = {
  'package.json is "private". Decide the name of the package, and remove "private".': isPrivate !== true,
  'package.json has no "repository" with the "url" git+https://github.com/<owner>/<repository>.git.':
    /^git\+https:\/\/github\.com\/[\w-]+\/[\w.-]+\.git$/.test(repository?.url),
  'README.md says how to install from a clone.': !read('README.md').includes('npm pack'),
  [`the version of lib/common/version.ts is not ${version}, as in package.json.`]: read(
    'lib/common/version.ts',
  ).includes(`'${version}'`),
  [`CHANGELOG.md has no section "## ${version} (<date>)".`]: read('CHANGELOG.md').includes(`\n## ${version} (20`),
  [`The tag is ${refName}. It has to be v${version}.`]: refType !== 'tag' || refName === `v${version}`,
};

for (const [problem, passed] of Object.entries(checks)) {
  if (passed) continue;
  console.error(problem);
  process.exitCode = 1;
}
