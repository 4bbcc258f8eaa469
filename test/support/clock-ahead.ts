import { execFile, spawnSync } from 'node:child_process';
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void) {
  static volatile long *steered;
  const char *seconds = getenv("CLOCK_AHEAD_S"), *path = getenv("CLOCK_AHEAD_FILE");
  if (path && !steered) {
    int file = open(path, O_RDONLY);
    void *shared = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) steered = shared;
  }
  return steered ? *steered : seconds ? atol(seconds) : 0;
}
int clock_gettime(clockid_t id, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, id, at);
  if (!failed && id == CLOCK_REALTIME) at->tv_sec += offset();
  return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}
`;

/** Returns whether gcc is installed. Without it, prints that the tests did not run. In CI it throws. */
export function canSetClocksAhead(): boolean {
  if (spawnSync('gcc', ['--version']).status === 0) return true;
  if (process.env['CI'] === 'true') throw new Error('gcc is missing: install it for the tests whose clocks differ');
  process.stderr.write('Not tested: masters whose clocks differ, for want of gcc\n');
  return false;
}

/** Returns a function that makes the environment of a server whose clock is ahead. Needs gcc. */
export async function clocksAhead(): Promise<(seconds: number) => NodeJS.ProcessEnv> {
  const { library } = await shim();
  return (seconds) => ({ LD_PRELOAD: library, CLOCK_AHEAD_S: String(seconds) });
}

/** The wall clock of a process that is started with this environment. */
export interface SteeredClock {
  readonly env: NodeJS.ProcessEnv;
  /** Sets the clock this far ahead of the machine's clock. */
  set(seconds: number): void;
}

/** Returns a clock that can be set while the process runs. Needs gcc and a 64-bit machine. */
export async function steeredClock(): Promise<SteeredClock> {
  const { folder, library } = await shim();
  const path = join(folder, 'offset');
  const set = (seconds: number): void => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds));
    // Written in place, because the process has mapped this file.
    const file = openSync(path, 'r+');
    writeSync(file, bytes, 0, bytes.length, 0);
    closeSync(file);
  };
  writeFileSync(path, Buffer.alloc(8));
  return { env: { LD_PRELOAD: library, CLOCK_AHEAD_FILE: path }, set };
}

async function shim(): Promise<{ readonly folder: string; readonly library: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'clock-ahead-'));
  const [source, library] = ['clock.c', 'clock.so'].map((name) => join(folder, name));
  await writeFile(source, SOURCE);
  await promisify(execFile)('gcc', ['-shared', '-fPIC', '-O1', '-o', library, source]);
  return { folder, library };
}
