import { explore } from './explore.js';
const [first, count] = process.argv.slice(2).map(Number);
const given = JSON.parse(process.argv[4] ?? '{}');
const t = Date.now();
let n = 0, grants = 0; let worst: Record<string, number> = {};
for (let s = first; s < first + count; s++) {
  const r = await explore(s, given);
  grants += r.grants;
  if (r.problems.length) { console.log(s, r.problems); n++; }
  for (const k of ['closedMs','allClosedMs','turnMs','overtakes','requests'] as const) worst[k] = Math.max(worst[k] ?? 0, r[k]);
}
console.log({ bad: n, grants, ms: (Date.now() - t) / count, worst });
process.exit(0);
