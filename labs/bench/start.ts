// npm run bench:start: hundreds of instances that start at once and want the same lock. Writes results/start.json and
// docs/performance.md. With `--instances 50` or `--quick` it writes nothing.
import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { format, resolveConfig } from 'prettier';
import { forkSource } from '../../test/support/lock-process.ts';
import { startRedis } from '../../test/support/redis/index.ts';
import { faultsOfStart } from './faults.cjs';
import type { StartOptions, StartOutcome, StartReport } from './start-worker.ts';

const PROCESSES = 5;
const SPREAD_MS = 1_000;
const WORK_MS = 1;
const SAMPLE_MS = 100;

/** What the server has seen so far. */
interface Seen {
  readonly at: number;
  readonly connections: number;
  readonly connected: number;
  readonly scripts: number;
  /** Requests that are not scripts: those of new connections and of subscriptions. */
  readonly others: number;
}

/** Commands that clients send and no script of the library calls. Without `info` of this file's own samples. */
const OTHERS = /^(?:info|client\|\w+|hello|auth|select|ping|script\|\w+|command.*|s?subscribe|s?unsubscribe|quit)$/;

async function look(admin: Redis, own: { infos: number }): Promise<Seen> {
  const info = await admin.info('everything');
  own.infos += 1;
  const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
  let [scripts, others] = [0, -own.infos];
  for (const [, name, calls] of info.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)) {
    if (name === 'evalsha' || name === 'eval') scripts += Number(calls);
    else if (OTHERS.test(name)) others += Number(calls);
  }
  return {
    at: performance.now(),
    connections: field('total_connections_received'),
    connected: field('connected_clients'),
    scripts,
    others,
  };
}

async function measure(instances: number, apart: boolean) {
  const server = await startRedis({ local: true });
  const admin = new Redis(server.url);
  // The first INFO that a client sends is its own.
  const own = { infos: 0 };
  const options: StartOptions = {
    redis: server.url,
    prefix: 'start_',
    instances: instances / PROCESSES,
    spreadMs: SPREAD_MS,
    workMs: WORK_MS,
    apart,
  };
  const children = Array.from({ length: PROCESSES }, () => forkSource('../../labs/bench/start-worker.ts', options));
  await Promise.all(children.map((child) => received(child)));
  const before = await look(admin, own);
  const beganAt = performance.timeOrigin + performance.now();
  const reports = Promise.all(children.map((child) => received(child)));
  for (const child of children) child.send('go');
  const samples: Seen[] = [before];
  const over = new AbortController();
  const sampling = (async () => {
    while (!over.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
      samples.push(await look(admin, own));
    }
  })();
  const outcomes = (await reports).flat() as StartOutcome[];
  over.abort();
  await sampling;
  const after = samples[samples.length - 1];
  const exits = children.map((child) => once(child, 'exit'));
  for (const child of children) child.send('close');
  await Promise.all(exits);
  const version = (await admin.info('server')).match(/^redis_version:(.*)/m)?.[1].trim();
  admin.disconnect();
  await server.stop();

  const served = outcomes.filter(({ error }) => error === undefined);
  const waits = served.map(({ waitedMs }) => waitedMs).toSorted((a, b) => a - b);
  return {
    version,
    outcome: {
      instances,
      apart,
      failures: outcomes.length - served.length,
      errors: [...new Set(outcomes.flatMap(({ error = [] }) => error))],
      connections: after.connections - before.connections,
      most: Math.max(...samples.map(({ connected }) => connected)) - before.connected,
      scripts: after.scripts - before.scripts,
      others: after.others - before.others,
      busiest: busiestSecond(samples),
      allMs: Math.max(...served.map(({ grantedAt }) => grantedAt)) - beganAt,
      medianMs: waits[Math.floor(waits.length / 2)],
      longestMs: waits[waits.length - 1],
    },
  };
}

/** Returns the most requests within a second. */
function busiestSecond(samples: readonly Seen[]): number {
  const requests = ({ scripts, others }: Seen): number => scripts + others;
  return Math.max(
    ...samples.map((from) => {
      const to = samples.findLast(({ at }) => at <= from.at + 1_000) ?? from;
      return requests(to) - requests(from);
    }),
  );
}

function received(child: ChildProcess): Promise<StartReport> {
  return new Promise((resolve, reject) => {
    child.once('message', (report) => resolve(report as StartReport));
    child.once('exit', (code, signal) => reject(new Error(`a process has ended: ${signal ?? code}`)));
  });
}

const { values } = parseArgs({
  options: {
    instances: { type: 'string', default: '500' },
    quick: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
  },
});
const instances = values.quick ? 50 : Number(values.instances);
const measured = [await measure(instances, false), await measure(instances, true)];
const outcomes = measured.map(({ outcome }) => outcome);
process.stdout.write(`${JSON.stringify(outcomes, undefined, 2)}\n`);
const faults = faultsOfStart(outcomes);
for (const fault of faults) process.stderr.write(`FAILED ${fault}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
if (instances === 500 && faults.length === 0) {
  const [{ model }] = cpus();
  const machine = {
    processor: model.trim(),
    cores: cpus().length,
    node: process.version,
    redis: measured[0].version,
    date: new Date().toISOString().slice(0, 10),
    note: values.quiet
      ? 'Nothing else ran on the machine.'
      : 'Other programs ran on the machine: to be measured again on a quiet one.',
  };
  const file = fileURLToPath(new URL('results/start.json', import.meta.url));
  const text = JSON.stringify({ machine, processes: PROCESSES, spreadMs: SPREAD_MS, workMs: WORK_MS, outcomes });
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), filepath: file }));
  const sections = fileURLToPath(new URL('sections.mjs', import.meta.url));
  execFileSync(process.execPath, [sections], { stdio: 'inherit' });
}
