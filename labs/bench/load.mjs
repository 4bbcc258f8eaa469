// npm run bench:load: measures how long Nest and ioredis take to load, and how much longer it takes with this library.
// Each load has its own process. The variants alternate in one run.
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const HELP = `node labs/bench/load.mjs [options]
  --runs <n>         processes for each variant (21)
  --dist <folder>    the build under measure (dist)
  --beside <folder>  another build, measured in the same run`;
const TARGET_MS = 20;
const PEERS = ['@nestjs/common', '@nestjs/core', 'ioredis'];

/** Prints the wall time and the processor time of a load. Other processes lengthen only the first. */
const script = (loading) => `
  const start = performance.now();
  const used = process.cpuUsage();
  ${loading}
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify({ wall: performance.now() - start, cpu: (user + system) / 1000 }));`;
const SOURCES = {
  cjs: (all) => script(`for (const name of ${JSON.stringify(all)}) require(name);`),
  esm: (all) => script(`for (const name of ${JSON.stringify(all)}) await import(name);`),
};

function load(format, entry) {
  const source = SOURCES[format]([...PEERS, ...(entry === undefined ? [] : [entry])]);
  const type = format === 'esm' ? ['--input-type=module'] : ['--input-type=commonjs'];
  // Older Node versions warn of require() of an ES module, which Nest 12 is.
  const args = ['--no-warnings', ...type, '--eval', source];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' }));
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const ms = (value) => `${value.toFixed(0).padStart(4)} ms`;

function measure(format, builds, runs) {
  const variants = [{ times: [] }, ...builds.map((folder) => ({ folder, times: [] }))];
  for (let run = 0; run <= runs; run++) {
    for (const { folder, times } of variants) {
      const time = load(format, folder && join(resolve(folder), format, 'index.js'));
      // The first run fills the caches of the file system.
      if (run > 0) times.push(time);
    }
  }
  const [bare, ...ours] = variants.map(({ times }) => times);
  const of = (times, key) => median(times.map((time) => time[key]));
  console.log(`${format}: ${PEERS.join(', ')}: ${ms(of(bare, 'wall'))}, processor ${ms(of(bare, 'cpu'))}`);
  for (const [i, folder] of builds.entries()) {
    // Of processes that ran one after the other, since the machine is not equally busy all the time.
    const more = ours[i].map(({ wall, cpu }, run) => ({ wall: wall - bare[run].wall, cpu: cpu - bare[run].cpu }));
    const wall = of(more, 'wall');
    const verdict = wall <= TARGET_MS ? 'met' : 'MISSED';
    console.log(
      `${format}: ${folder}: ${ms(wall)} more (<= ${TARGET_MS}) ${verdict}, processor ${ms(of(more, 'cpu'))}`,
    );
  }
}

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '21' },
    dist: { type: 'string', default: join(ROOT, 'dist') },
    beside: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(HELP);
} else {
  const builds = [options.dist, options.beside].filter((folder) => folder !== undefined);
  console.log(`node ${process.version}, median of ${options.runs} processes each`);
  for (const format of Object.keys(SOURCES)) measure(format, builds, Number(options.runs));
}
