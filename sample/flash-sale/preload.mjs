// Loaded before main.ts in the instances of npm start, one after the other: the second is TypeScript.
await import('../../test/support/typescript-hooks.mjs');
await import('./src/launch/tether.ts');
