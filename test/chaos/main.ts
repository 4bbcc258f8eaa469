// npm run chaos
import { FAULTS } from './faults/index.js';
import { run } from './run.js';
const [name, store, control, times] = process.argv.slice(2);
for (const fault of FAULTS.filter((f) => f.name.includes(name) && (f.stores as object)[store as never])) {
  const t = performance.now();
  try {
    const r = await run({ fault, store: store as never, seed: 1, times: Number(times ?? 1), control: control === '1' });
    const { findings: f } = r;
    process.stdout.write(
      `${fault.name} ${((performance.now() - t) / 1000).toFixed(1)}s acq ${f.acquisitions} ov ${f.overlaps.length} lost ${f.lostUpdates.length}/${f.lostElements.length} fenced ${f.lostBehindFence.length} rec ${f.recoveryMs?.toFixed(0)} wait ${f.longestWaitMs.toFixed(0)} una ${f.unavailable.length} ${JSON.stringify([...r.breaches])}\n`,
    );
  } catch (e) {
    process.stdout.write(`${fault.name} FAILED ${(e as Error).stack}\n`);
  }
}
process.exit();
