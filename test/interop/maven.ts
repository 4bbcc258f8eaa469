import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const PROJECT = join(__dirname, 'redisson');
const SOURCES = ['pom.xml', 'src/main/java/Peer.java'].map((name) => join(PROJECT, name));

/** The versions of Redisson that are tested, the newest first. */
export const REDISSON_VERSIONS = ['4.7.0', '3.52.0', '3.20.0'] as const;

/** Returns the folder of the Java program and its libraries. They are downloaded once for each version of Redisson. */
export function classesOf(version: string): string {
  return resolve(__dirname, '../../.cache/interop/redisson', version);
}

/** The version in the program's POM. */
const JAVA = 17;

/** Returns the tool that is missing to run Redisson here. Undefined if none is. */
export function missingForJava(): string | undefined {
  const tool = ['java', 'javac', 'mvn'].find((one) => versionOf(one) === undefined);
  if (tool !== undefined) return tool;
  // "javac 17.0.15". Version 8 prints "javac 1.8.0".
  const major = Number(/^javac (\d+)/.exec(versionOf('javac') ?? '')?.[1]);
  return major >= JAVA ? undefined : `JDK ${JAVA} (there is ${versionOf('javac')})`;
}

/** Returns the first line of a tool's version. Undefined if the tool is missing. */
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

/** Builds the Java program with a version of Redisson if its sources have changed. */
export async function buildJava(version: string = REDISSON_VERSIONS[0]): Promise<void> {
  const folder = classesOf(version);
  const digest = createHash('sha256');
  for (const file of SOURCES) digest.update(readFileSync(file));
  const stamp = join(folder, 'stamp');
  const wanted = digest.digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  rmSync(folder, { recursive: true, force: true });
  const into = [`-Dinterop.target=${folder}`, `-DoutputDirectory=${join(folder, 'lib')}`];
  const args = [
    '-q',
    '-B',
    '-f',
    SOURCES[0],
    ...into,
    `-Dredisson.version=${version}`,
    'compile',
    'dependency:copy-dependencies',
  ];
  await promisify(execFile)('mvn', args, { timeout: 240_000 }).catch((error: { readonly stdout: string }) => {
    // Maven prints its errors on stdout, which the error's message does not include.
    throw new Error(`The Java program could not be built:\n${error.stdout}`, { cause: error });
  });
  writeFileSync(stamp, wanted);
}
