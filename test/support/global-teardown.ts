import { rmSync } from 'node:fs';

export default async function globalTeardown(): Promise<void> {
  await globalThis.testRedis?.stop();
  if (process.env.TEST_FOLDER !== undefined) rmSync(process.env.TEST_FOLDER, { recursive: true, force: true });
}
