// Distinct keys with fewer and more tasks, and in a cluster.
import { measureKeys, parallelColumns } from '../distinct-keys.mjs';
import { fastestEntries } from '../entries/index.mjs';
import { ours, startInstance } from '../entries/ours.mjs';
import { openRaw, raw } from '../entries/raw.mjs';
import { Cluster, connect } from '../library.mjs';
import { ratio, rowsOf } from '../measure.mjs';
import { openAll } from '../opened.mjs';
import { startCluster } from '../redis.mjs';
import { judged } from '../targets.mjs';

export async function run(plan) {
  return [await onOneServer(plan), await inCluster(plan)];
}

async function onOneServer(plan) {
  const { redis, lockOf, close } = await openAll(fastestEntries, { autoPipelining: true });
  const admin = await connect(redis.url);
  const cases = [10, 1_000].map((tasks) => ({ name: `${tasks} tasks`, tasks }));
  const measured = await measureEach(cases, [0, 0.35], { plan, entries: fastestEntries, lockOf, admins: [admin] });
  admin.disconnect();
  await close();
  return {
    id: '2b',
    title: 'Distinct keys, 10 and 1,000 tasks',
    method: 'As with 100 tasks. Clients have automatic pipelining.',
    columns: parallelColumns,
    ...rowsAndFigures('2b', fastestEntries, measured),
  };
}

async function inCluster(plan) {
  const cluster = await startCluster();
  const clients = await Promise.all([raw, ours].map(() => connectTo(cluster)));
  const instance = startInstance(clients[1]);
  const { service } = instance;
  const cycleOurs = async (key) => (await service.acquire(key)).release();
  const locks = new Map([
    [raw.name, await openRaw(clients[0])],
    [ours.name, { cycle: cycleOurs }],
  ]);
  for (const { cycle } of locks.values()) for (let i = 0; i < 60; i++) await cycle(`warm${i}:up`);
  // The hash tag of a key is its family, so that keys of many families are spread over all nodes.
  const spread = (task) => `{goods${task}}:300`;
  const cases = [
    ...[10, 100, 1_000].map((tasks) => ({ name: `${tasks} tasks, ${tasks} slots`, tasks, keyOf: spread })),
    { name: '100 tasks, 1 slot', tasks: 100, keyOf: (task) => `{goods}:${task}` },
  ];
  const entries = [raw, ours];
  const lockOf = ({ name }) => locks.get(name);
  const measured = await measureEach(cases, [0.35, 1], { plan, entries, lockOf, admins: cluster.admins });
  await instance.close();
  for (const client of clients) client.disconnect();
  await cluster.stop();
  return {
    id: '2c',
    title: 'Distinct keys in a cluster of three',
    method:
      'The hash tags of the keys are the same for the raw pair and for this library. Clients have automatic pipelining.',
    columns: parallelColumns,
    ...rowsAndFigures('2c', entries, measured),
  };
}

async function connectTo({ nodes }) {
  const client = new Cluster(nodes, { lazyConnect: true, enableAutoPipelining: true });
  await client.connect();
  return client;
}

async function measureEach(cases, [from, to], options) {
  const measured = new Map();
  for (const [i, { name, ...own }] of cases.entries()) {
    const part = [i, i + 1].map((nth) => from + (nth / cases.length) * (to - from));
    measured.set(name, await measureKeys({ ...options, ...own, part }));
  }
  return measured;
}

function rowsAndFigures(id, entries, measured) {
  const each = [...measured];
  const rows = each.flatMap(([name, own]) =>
    rowsOf(entries, own).map((row) => ({ ...row, name: `${name}: ${row.name}` })),
  );
  const targets = each.flatMap(([name, own]) => {
    const against = (figure) => ratio(own.get(ours.name), own.get(raw.name), figure);
    return [
      judged(id, `${name}: cycles/s ÷ raw pair`, against('perSecond')),
      judged(id, `${name}: CPU a cycle ÷ raw pair`, against('cpuUs')),
    ];
  });
  return { tail: 'a cycle', rows, targets };
}
