// The environment of jest in which mutants run. Each file of jest is a part of the run of one mutant: its first red
// test ends the mutant. The last part of a mutant is its control: what was red runs again without the mutant. The
// process continues with the next one, so that what jest has loaded stays in its caches.
const { channel } = require('node:diagnostics_channel');
const { appendFileSync, readFileSync } = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { performance } = require('node:perf_hooks');
const { Worker } = require('node:worker_threads');
const { TestEnvironment } = require('jest-environment-node');

const TICK_MS = 100;
/** A test never ends if it waits this much longer, or computes this much longer, than a multiple of its usual time. */
const IDLE_MS = 10_000;
const CPU_MS = 15_000;
const TIMES_AS_LONG = 5;

/** @type {{ results: string, record: boolean, ms: Record<string, Times>, runs: Record<string, Run> }} */
const plan = JSON.parse(readFileSync(process.env.MUTATION_PLAN, 'utf8'));
/** The verdict of each mutant that was killed, and the tests of the file that killed it. */
const killed = new Map();
let environment;

const activeHandles = () => Reflect.get(process, '_getActiveHandles').call(process);
const asJson = (_, value) => (value instanceof Set ? [...value] : value);
const say = (line) => appendFileSync(plan.results, `${JSON.stringify(line, asJson)}\n`);

const beats = new Int32Array(new SharedArrayBuffer(8));
setInterval(() => {
  Atomics.add(beats, 0, 1);
  environment?.onTick();
}, TICK_MS).unref();

const WATCH = `
const { parentPort, workerData: { beats, limitMs } } = require('node:worker_threads');
const { appendFileSync } = require('node:fs');
let running, beat, since = 0;
const cpuMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
parentPort.on('message', (message) => { running = message; });
setInterval(() => {
  if (Atomics.load(beats, 0) !== beat) { beat = Atomics.load(beats, 0); since = cpuMs(); }
  else if (running && cpuMs() - since > limitMs) {
    appendFileSync(running.results, JSON.stringify({ ...running.line, verdict: 'timeout' }) + '\\n');
    process.kill(process.pid, 'SIGKILL');
  }
}, 500);
`;
const watch = plan.record ? undefined : new Worker(WATCH, { eval: true, workerData: { beats, limitMs: CPU_MS } });
watch?.unref();

// What an ended mutant leaves behind must not disturb the next one.
process.on('unhandledRejection', () => {});
process.on('uncaughtException', () => {});
const subscriptions = new Set();
const followed = channel('nestjs-redis-lock:mutation');
// A channel has another prototype while somebody subscribes.
followed.subscribe(() => {});
const active = Object.getPrototypeOf(followed);
const subscribe = Reflect.get(active, 'subscribe');
active.subscribe = function (listener) {
  subscriptions.add([this, listener]);
  return subscribe.call(this, listener);
};

function testsIn(block) {
  return block.children.flatMap((child) => (child.type === 'test' ? [child] : testsIn(child)));
}

/** Whether a socket is connected to a server of another process. */
function leavesProcess([given]) {
  const options = Array.isArray(given) ? given[0] : given;
  const port = typeof options === 'object' ? options.port : options;
  const isOwn = (handle) => handle instanceof net.Server && handle.address()?.port === Number(port);
  return port !== undefined && !activeHandles().some(isOwn);
}
const connect = Reflect.get(net.Socket.prototype, 'connect');
net.Socket.prototype.connect = function (...args) {
  if (plan.record && leavesProcess(args)) environment?.note('sockets');
  return connect.apply(this, args);
};

module.exports = class MutationEnvironment extends TestEnvironment {
  constructor(config, context) {
    super(config, context);
    this.run = plan.runs[path.basename(context.testPath, '.ts')];
    const { id, files, isControl } = this.run;
    this.handles = new Set(activeHandles());
    this.timers = new Set();
    /** The tests that run, by their file: all, or those with these numbers. */
    this.files = isControl ? [killed.get(id)?.file ?? []].flat() : killed.has(id) ? [] : files;
    this.global.mutantFiles = this.files.map(({ name }) => name);
    this.isIdle = this.files.length === 0;
    this.global.isMutant = (each, inTestsOnly = false) => {
      if (plan.record && !(inTestsOnly && !this.isRunning)) this.reach(each);
      return each === id && !isControl;
    };
    for (const name of ['setTimeout', 'setInterval', 'setImmediate']) this.followTimers(name);
    this.notes = {};
    environment = this;
  }

  followTimers(name) {
    const original = this.global[name];
    const follow = (callback, ...rest) => {
      const timer = original(this.hasEnded ? () => {} : callback, ...rest);
      if (this.hasEnded) clearTimeout(timer);
      else this.timers.add(timer);
      return timer;
    };
    this.global[name] = Object.defineProperties(follow, Object.getOwnPropertyDescriptors(original));
  }

  /** Notes what the file that runs does. */
  note(what, value = true) {
    this.notesOf(this.file)[what] = value;
  }

  notesOf(file) {
    return (this.notes[file] ??= { load: new Set(), tests: [] });
  }

  /** Notes that a mutant is reached: while modules are loaded, or by tests. A hook runs for all tests of its block. */
  reach(id) {
    const { load, tests } = this.notesOf(this.file);
    if (!this.isRunning) load.add(id);
    else for (const number of this.current) tests[number].reached.add(id);
  }

  /** Numbers the tests of each file, and skips those that are not to run. */
  number({ children }) {
    for (const block of children) {
      const chosen = this.files.find(({ name }) => name === block.name)?.tests;
      for (const [number, test] of testsIn(block).entries()) {
        this.numbers.set(test, number);
        if (chosen?.includes(number) === false) test.mode = 'skip';
        if (plan.record) this.notesOf(block.name).tests.push({ ms: 0, reached: new Set() });
      }
    }
  }

  numbersIn(block) {
    return testsIn(block).map((test) => this.numbers.get(test));
  }

  onTick() {
    if (plan.record || this.giveUp === undefined) return;
    const { tests, hooks } = plan.ms[this.file] ?? { tests: [], hooks: 0 };
    const more = TIMES_AS_LONG * (this.current.length === 1 ? (tests[this.current[0]] ?? 0) : hooks);
    // A process that the machine does not run is neither idle nor does it use CPU time.
    const { idle } = performance.eventLoopUtilization(this.idleSince);
    const { user, system } = process.cpuUsage(this.cpuSince);
    if (idle > IDLE_MS + more || (user + system) / 1_000 > CPU_MS + more) this.giveUp();
  }

  /** Lets a test or hook fail that never ends. */
  limited(fn) {
    if (plan.record || typeof fn !== 'function' || fn.length > 0) return fn;
    const endless = new Promise((_, reject) => {
      this.giveUp = () => {
        this.isEndless = true;
        reject(new Error('it does not end'));
      };
    });
    endless.catch(() => {});
    return function (...args) {
      return Promise.race([fn.apply(this, args), endless]);
    };
  }

  handleTestEvent(event, { rootDescribeBlock }) {
    const { name, describeBlock, test, hook } = event;
    if (name === 'start_describe_definition' && this.depth++ === 0) this.enter(event.blockName);
    if (name === 'finish_describe_definition') this.depth -= 1;
    if (name === 'run_start') {
      this.isRunning = true;
      this.number(rootDescribeBlock);
    }
    if (name === 'run_finish') this.hasFinished = true;
    if (name === 'run_describe_start' && describeBlock.parent !== undefined) {
      if (describeBlock.parent.parent === undefined) this.enter(describeBlock.name);
      this.current = this.numbersIn(describeBlock);
      if (this.red !== undefined) describeBlock.mode = 'skip';
    }
    if (name === 'test_start' || name === 'hook_start') {
      this.idleSince = performance.eventLoopUtilization();
      this.cpuSince = process.cpuUsage();
      const runnable = test && name === 'test_start' ? test : hook;
      runnable.unlimited ??= runnable.fn;
      runnable.fn = this.limited(runnable.unlimited);
      if (name === 'test_start' && this.red !== undefined) test.mode = 'skip';
      if (name === 'test_start') {
        this.current = [this.numbers.get(test)];
        this.testSince = Date.now();
      } else if (hook.type.endsWith('All')) this.current = this.numbersIn(hook.parent);
    }
    if (name === 'test_done' && plan.record)
      this.notesOf(this.file).tests[this.numbers.get(test)].ms = Date.now() - this.testSince;
    if (name === 'test_done' && test.errors.length > 0) this.turnRed(test.name);
    if (name === 'hook_failure' || name === 'error') this.turnRed(`${name}: ${event.error?.message ?? event.error}`);
    if (name === 'run_describe_finish' && describeBlock.parent?.parent === undefined && plan.record) {
      this.note('ms', Date.now() - this.since);
    }
  }

  depth = 0;
  numbers = new Map();
  /** The tests for which something runs now. */
  current = [];

  enter(file) {
    this.file = file;
    this.since = Date.now();
    const { id, key, isControl } = this.run;
    if (!isControl) watch?.postMessage({ results: plan.results, line: { id, key, by: file } }, []);
  }

  turnRed(test) {
    if (plan.record) this.note('red', test);
    else this.red ??= { by: this.file, test };
  }

  async teardown() {
    const { id, key, isControl } = this.run;
    if (!this.isIdle && !this.hasFinished) this.turnRed('it does not load');
    if (plan.record) say({ notes: this.notes });
    else if (!isControl && this.red !== undefined) {
      const file = this.files.find(({ name }) => name === this.red.by) ?? this.files;
      killed.set(id, { file, line: { verdict: this.isEndless ? 'timeout' : 'killed', ...this.red } });
    } else if (isControl) say({ id, key, ...(killed.get(id)?.line ?? { verdict: 'survived' }), control: this.red });
    watch?.postMessage(undefined, []);
    this.clear();
    await new Promise((resolve) => setTimeout(resolve, this.red === undefined ? 0 : 20));
    environment = undefined;
    await super.teardown();
  }

  /** Ends what a failed test has left: timers, sockets, servers, processes and subscriptions. */
  clear() {
    this.hasEnded = true;
    for (const timer of this.timers) clearTimeout(timer);
    for (const handle of activeHandles()) {
      if (this.handles.has(handle)) continue;
      if (handle instanceof net.Socket) handle.destroy();
      else if (handle instanceof net.Server) handle.close();
      else handle.kill?.('SIGKILL');
    }
    for (const [subscribed, listener] of subscriptions) subscribed.unsubscribe(listener);
    subscriptions.clear();
  }
};
