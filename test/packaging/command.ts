import { spawn } from 'node:child_process';

export interface CommandOptions {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
  /** It is expected to end with an exit code other than 0. */
  readonly mustFail?: boolean;
}

/** A command that runs for longer hangs. It is killed, and whatever it has started. */
const LIMIT_MS = 600_000;

/** Runs a command to its end and writes its result to the console. Returns the command's output. */
export async function run(label: string, command: string, args: string[], options: CommandOptions): Promise<string> {
  const start = performance.now();
  const { code, output } = await execute(command, args, options);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const asExpected = options.mustFail === true ? typeof code === 'number' && code !== 0 : code === 0;
  process.stdout.write(`  ${label}: ${asExpected ? 'ok' : 'FAILED'}, ${seconds} s\n`);
  if (!asExpected) throw new Error(`${label}: ended with ${code} after ${seconds} s\n${output}`);
  return output;
}

function execute(command: string, args: string[], { cwd, env }: CommandOptions) {
  return new Promise<{ code: number | string; output: string }>((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: {
        ...process.env,
        NODE_ENV: undefined,
        NODE_OPTIONS: undefined,
        NO_COLOR: '1',
        FORCE_COLOR: undefined,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let output = '';
    const collect = (chunk: string): void => void (output += chunk);
    child.stdout.setEncoding('utf8').on('data', collect);
    child.stderr.setEncoding('utf8').on('data', collect);
    const timer = setTimeout(() => process.kill(-(child.pid as number), 'SIGKILL'), LIMIT_MS);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code: code ?? `${signal}, its time was ${LIMIT_MS} ms`, output });
    });
  });
}
