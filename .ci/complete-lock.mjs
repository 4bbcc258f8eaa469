// Completes package-lock.json with the optional packages of other platforms, which a registry mirror may not hold. npm then
// leaves them out of the lock file without a word, and `npm ci` of npm 11 refuses that file on every machine.
// Run it after an `npm install` behind such a mirror: node .ci/complete-lock.mjs
import { readFileSync, writeFileSync } from 'node:fs';

const PLATFORM =
  /(?:^|[/-])(darwin|linux|win32|android|freebsd|netbsd|openbsd|openharmony|sunos|aix)-(arm64|x64|arm|ia32|loong64|ppc64|riscv64|s390x)(?:-(\w+))?$/;

const file = 'package-lock.json';
const lock = JSON.parse(readFileSync(file, 'utf8'));

for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const [, os, cpu, abi = ''] = PLATFORM.exec(name) ?? [];
    const path = `node_modules/${name}`;
    if (os === undefined || path in lock.packages) continue;
    const libc = os === 'linux' ? { libc: [abi.startsWith('musl') ? 'musl' : 'glibc'] } : {};
    lock.packages[path] = { version, cpu: [cpu], dev: true, ...libc, optional: true, os: [os] };
    console.log(`added ${name}@${version}`);
  }
}

lock.packages = Object.fromEntries(Object.entries(lock.packages).toSorted(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
