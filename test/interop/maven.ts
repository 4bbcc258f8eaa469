import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const PROJECT = join(__dirname, 'redisson');
const SOURCES = ['pom.xml', 'src/main/java/Peer.java'].map((name) => join(PROJECT, name));

/** Where the Java program and all that it needs is built, once: from then on no network is needed. */
export const CLASSES = resolve(__dirname, '../../.cache/interop/redisson');

/** As the program's POM wants it. */
const JAVA = 17;

/** What is missing to run Redisson here; undefined if nothing is. */
export function missingForJava(): string | undefined {
  const tool = ['java', 'javac', 'mvn'].find((one) => versionOf(one) === undefined);
  if (tool !== undefined) return tool;
  // "javac 17.0.15"; of 8 it is "javac 1.8.0".
  const major = Number(/^javac (\d+)/.exec(versionOf('javac') ?? '')?.[1]);
  return major >= JAVA ? undefined : `JDK ${JAVA} (there is ${versionOf('javac')})`;
}

/** The first line of what the tool tells of itself; undefined where there is none. */
function versionOf(tool: string): string | undefined {
  try {
    return execFileSync(tool, ['-version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).split(
      '\n',
      1,
    )[0];
  } catch {
    return undefined;
  }
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
  await promisify(execFile)('mvn', args, { timeout: 240_000 }).catch((error: { readonly stdout: string }) => {
    // Maven tells on its output, which is not in the error's message, what it could not do.
    throw new Error(`The Java program could not be built:\n${error.stdout}`, { cause: error });
  });
  writeFileSync(stamp, wanted);
}
