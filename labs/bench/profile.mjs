// Profiles a scenario, in Node and on the server.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

const SHOWN = 20;
// Forked processes inherit it.
const FOLDER = 'NRL_BENCH_PROFILES';

export function startProfiling() {
  process.env[FOLDER] = mkdtempSync(join(tmpdir(), 'bench-'));
}

/** Returns the Node flags that make a process write a profile at its end. */
export const profileFlags = () => (process.env[FOLDER] ? ['--cpu-prof', `--cpu-prof-dir=${process.env[FOLDER]}`] : []);

/** Prints the commands of the server. A script's time includes its inner calls, which are also listed. */
export async function tellServerTime(client) {
  if (!process.env[FOLDER]) return;
  const stats = [...(await client.info('commandstats')).matchAll(/^cmdstat_(\S+?):calls=(\d+),usec=(\d+)/gm)];
  const busiest = stats.map(([, name, calls, usec]) => ({ name, calls: Number(calls), usec: Number(usec) }));
  const lines = busiest
    .toSorted((a, b) => b.usec - a.usec)
    .slice(0, SHOWN)
    .map(({ name, calls, usec }) => `   ${(usec / calls).toFixed(1).padStart(6)} µs × ${calls} ${name}`);
  process.stderr.write(`   on the server:\n${lines.join('\n')}\n`);
}

/** Returns the functions with the most time, of each process of the last scenario. */
export function takeProfiles() {
  const folder = process.env[FOLDER];
  const texts = readdirSync(folder).map((file) => {
    const text = summary(JSON.parse(readFileSync(join(folder, file), 'utf8')));
    rmSync(join(folder, file));
    return `   in process ${file.split('.')[3]}:\n${text}`;
  });
  return texts.join('\n');
}

export const stopProfiling = () => rmSync(process.env[FOLDER], { recursive: true, force: true });

function summary({ nodes, samples, timeDeltas }) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const self = new Map();
  let total = 0;
  samples.forEach((id, i) => {
    const { functionName, url, lineNumber } = byId.get(id).callFrame;
    const where = url === '' ? '' : ` ${basename(url)}:${lineNumber + 1}`;
    const name = `${functionName || '(anonymous)'}${where}`;
    self.set(name, (self.get(name) ?? 0) + timeDeltas[i]);
    total += timeDeltas[i];
  });
  const top = [...self].toSorted((a, b) => b[1] - a[1]).slice(0, SHOWN);
  return top.map(([name, micros]) => `   ${((micros / total) * 100).toFixed(1).padStart(6)} % ${name}`).join('\n');
}
