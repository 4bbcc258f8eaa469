// Loaded before main.ts in the instances: they must not outlive start.ts and demo.ts, even if those are killed.
const EXIT_TIMEOUT_MS = 8_000;

process.once('disconnect', () => {
  process.kill(process.pid, 'SIGTERM');
  setTimeout(() => process.exit(1), EXIT_TIMEOUT_MS).unref();
});
