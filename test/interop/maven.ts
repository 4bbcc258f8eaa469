import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const PROJECT = join(__dirname, 'redisson');
const SOURCES = ['pom.xml', 'src/main/java/Peer.java'].map((name) => join(PROJECT, name));

/** Where the Java program and all that it needs is built, once: from then on no network is needed. */
export const CLASSES = resolve(__dirname, '../../.cache/interop/redisson');

/** What is missing to run Redisson here; undefined if nothing is. */
export function missingForJava(): string | undefined {
  return ['java', 'javac', 'mvn'].find((tool) => {
    try {
      execFileSync(tool, ['-version'], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });
}

/** Builds the Java program, unless that was done already. */
export async function buildJava(): Promise<void> {
  const digest = createHash('sha256');
  for (const file of SOURCES) digest.update(readFileSync(file));
  const stamp = join(CLASSES, 'stamp');
  const wanted = digest.digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  rmSync(CLASSES, { recursive: true, force: true });
  const into = [`-Dinterop.target=${CLASSES}`, `-DoutputDirectory=${join(CLASSES, 'lib')}`];
  const args = ['-q', '-B', '-f', SOURCES[0], ...into, 'compile', 'dependency:copy-dependencies'];
  await promisify(execFile)('mvn', args, { timeout: 240_000 });
  writeFileSync(stamp, wanted);
}
