import { execFile, spawnSync } from 'node:child_process';

/** Runs a client to its end and returns the JSON that it has printed. */
export function runClient<T>(command: string, file: string, options: object): Promise<T> {
  return new Promise((resolve, reject) => {
    // It ends a client that hangs.
    execFile(command, [file, JSON.stringify(options)], { timeout: 600_000 }, (error, stdout, stderr) => {
      if (error === null) resolve(JSON.parse(stdout) as T);
      else reject(new Error(`${command} ${file}: ${error.message}\n${stderr}`, { cause: error }));
    });
  });
}

/** Returns a Python with the redis package. Without one it prints a line and returns undefined. In CI it throws. */
export function pythonWithRedis(): string | undefined {
  const found = ['/usr/bin/python3', 'python3'].find(
    (python) => spawnSync(python, ['-c', 'import redis'], { timeout: 20_000 }).status === 0,
  );
  if (found !== undefined) return found;
  const missing = 'Python clients are left out: there is no python3 with redis (Debian: apt-get install python3-redis)';
  if (process.env.CI === 'true') throw new Error(missing);
  process.stdout.write(`${missing}\n`);
  return undefined;
}
