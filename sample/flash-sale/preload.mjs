// Loaded before main.ts in each instance.
const EXIT_TIMEOUT_MS = 8_000;

// An instance must not outlive the command that started it, even if that was killed.
process.once('disconnect', () => {
  process.kill(process.pid, 'SIGTERM');
  setTimeout(() => process.exit(1), EXIT_TIMEOUT_MS).unref();
});

await import('../../test/support/typescript-hooks.mjs');
