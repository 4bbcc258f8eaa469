import type { ChildProcess } from 'node:child_process';
import type { WallClock } from '../../server-clock/wall-clock.js';
import { forkSource } from '../../lock-process.js';
import type { RedisProxy } from '../../proxy.js';
import { machineMs } from '../../random.js';
import type { HarnessEvent } from '../history/events.js';
import type { Detached, Order, Report, WorkerTask } from '../workload/orders.js';

/** A process that acquires locks, controlled by its parent. */
export class Member {
  /** The id of its module instance. Empty until it is ready. */
  instance = '';
  readonly absences: HarnessEvent[] = [];
  /** Operations that wait for the lock. */
  readonly waiting = new Set<string>();
  /** The operation of its long hold. Undefined if it has none. */
  longHold: string | undefined;
  /** Whether its long hold has checked the lock for the last time. */
  looked = false;
  /** Whether the signal of its long hold has aborted. */
  lost = false;
  alive = true;
  readonly exited: Promise<void>;
  private readonly child: ChildProcess;
  private readonly holding = new Set<string>();
  private stoppedAt: number | undefined;

  constructor(
    private readonly task: WorkerTask,
    /** Its proxy for each server. */
    readonly ways: readonly RedisProxy[],
    /** Its wall clock. Undefined if it was not requested. */
    readonly clock: WallClock | undefined,
    listener: (member: Member, report: Report) => void,
    flags: readonly string[],
  ) {
    this.child = forkSource('chaos/workload/worker.ts', task, clock?.variables, flags);
    this.child.on('message', (report: Report) => {
      this.onReport(report);
      listener(this, report);
    });
    this.exited = new Promise((resolve) => void this.child.once('exit', () => resolve()));
    void this.exited.then(() => (this.alive = false));
  }

  get name(): string {
    return this.task.name;
  }

  get holds(): boolean {
    return this.holding.size > 0;
  }

  /** Returns whether it has a long hold. */
  get busy(): boolean {
    return this.longHold !== undefined;
  }

  get waits(): boolean {
    return this.waiting.size > 0 && !this.holds;
  }

  get idle(): boolean {
    return this.waiting.size === 0 && !this.holds;
  }

  /** Makes it continue a visit of any member. */
  take(visit: Detached): void {
    this.holding.add(visit.op);
    this.send({ kind: 'resume', visit });
  }

  send(order: Order): void {
    if (this.child.connected) this.child.send(order);
  }

  /** Ends its long hold, or keeps it from beginning. */
  end(): void {
    this.send({ kind: 'end' });
  }

  /** Sends SIGTERM: it shuts down as an application does. */
  terminate(): void {
    this.child.kill('SIGTERM');
  }

  /** Sends SIGSTOP. */
  stop(): void {
    this.stoppedAt = machineMs();
    this.child.kill('SIGSTOP');
  }

  /** Sends SIGCONT, if it is stopped. */
  goOn(): void {
    if (this.stoppedAt === undefined) return;
    this.child.kill('SIGCONT');
    this.absent(this.stoppedAt, machineMs());
    this.stoppedAt = undefined;
  }

  /** Sends SIGKILL, and waits until the process has exited. */
  async kill(): Promise<void> {
    this.absent(machineMs(), null);
    this.alive = false;
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** Records that the harness kept it from working in this time. */
  absent(from: number, to: number | null): void {
    this.absences.push({ kind: 'absent', process: this.name, at: from, from, to });
  }

  private onReport(report: Report): void {
    if (report.kind === 'ready') this.instance = report.instance;
    else if (report.kind === 'invoke') this.waiting.add(report.op);
    else if (report.kind === 'entered') {
      this.waiting.delete(report.op);
      this.holding.add(report.op);
      if (report.ordered !== true) return;
      this.longHold = report.op;
      this.looked = this.lost = false;
    } else if (report.kind === 'fail') this.waiting.delete(report.op);
    else if (report.kind === 'looked') this.looked = true;
    else if (report.kind === 'lost') this.lost ||= report.op === this.longHold;
    else if (report.kind === 'pass') this.holding.delete(report.visit.op);
    else if (report.kind === 'left') {
      this.holding.delete(report.op);
      if (this.longHold === report.op) this.longHold = undefined;
    }
  }
}
