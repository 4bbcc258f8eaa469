// Loaded before main.ts in the instances that start.ts and demo.ts run: they must not outlive it, even if it is killed.
const PATIENCE_MS = 8_000;

process.once('disconnect', () => {
  process.kill(process.pid, 'SIGTERM');
  setTimeout(() => process.exit(1), PATIENCE_MS).unref();
});
