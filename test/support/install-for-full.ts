import { fileURLToPath } from 'node:url';
import { installPackages } from './install-packages.ts';

const folderOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The folder of the packages that only `npm run test:full` needs. */
export const TEST_FOLDER = folderOf('../');

/** Installs what `npm run test:full` needs beside the packages of the root. */
export async function installForFull(): Promise<void> {
  await installPackages(TEST_FOLDER);
  await installPackages(folderOf('../../sample/fenced-orders'));
}
