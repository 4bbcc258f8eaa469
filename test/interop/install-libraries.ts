import { cpSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { installPackages } from '../support/install-packages.js';

const PROJECT = join(__dirname, 'libraries');

/** The folder of the libraries that users move from. They are downloaded once. */
const FOLDER = resolve(__dirname, '../../.cache/interop/libraries');

/** The program that locks by one of these libraries. */
export const LIBRARY_PEER = join(FOLDER, 'peer.mjs');

/** Installs the libraries if their list has changed. */
export async function installLibraries(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  for (const file of ['libraries.mjs', 'peer.mjs']) cpSync(join(PROJECT, file), join(FOLDER, file));
  await installPackages(PROJECT, FOLDER);
}
