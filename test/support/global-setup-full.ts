import { installForFull } from './install-for-full.ts';
import globalSetup from './global-setup.ts';

/** Installs what `npm test` does not need, before the first test that does. */
export default async function globalSetupFull(): Promise<void> {
  await installForFull();
  await globalSetup();
}
