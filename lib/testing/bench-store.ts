import { LockUnavailableError } from '../common/errors.js';
import type { ReplyListener } from '../contract/reply-listener.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  ListedLock,
  ListRequest,
  LockState,
  LockStore,
  ReleaseRequest,
  StoreCapabilities,
  StoreListener,
  StorePing,
  TransferReply,
  TransferRequest,
} from '../contract/store.js';
import { afterPromiseJobs, type Clock, type Timer } from '../clock/clock.js';
import type { MemoryStore } from '../stores/memory/memory.store.js';

/** How long a client waits between two attempts to connect. */
const RECONNECT_MS = 100;

/** One module instance's connection to the memory of a test bench. Other instances continue while it is down. */
export class BenchStore implements LockStore {
  private listener: StoreListener | undefined;
  private outage: Error | undefined;
  private reconnecting: Timer | undefined;

  constructor(
    private readonly memory: MemoryStore,
    private readonly clock: Clock,
    private readonly onClosed: () => void,
  ) {}

  get capabilities(): StoreCapabilities {
    return this.memory.capabilities;
  }

  /** Ends the connection, or opens it again, and reports the change as a store on a server does. */
  setDown(isDown: boolean): void {
    if (isDown === (this.outage !== undefined)) return;
    const outage = isDown ? new Error('The test bench ended the connection.') : undefined;
    this.outage = outage;
    this.reconnecting?.cancel();
    if (outage !== undefined) return this.report(outage);
    this.listener?.onUp();
    this.listener?.onReconnected();
    this.listener?.onSubscribed();
  }

  listen(listener: StoreListener): void {
    this.listener = listener;
    this.memory.listen({
      ...listener,
      // Messages that are sent during an outage are lost.
      onWake: (...wake) => void (this.outage ?? listener.onWake(...wake)),
    });
    if (this.outage !== undefined) listener.onDown(this.outage);
  }

  acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    if (this.mayAsk(listener)) this.memory.acquire(request, listener);
  }

  release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    if (this.mayAsk(listener)) this.memory.release(request, listener);
  }

  async extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    return this.outage === undefined ? this.memory.extend(requests) : requests.map(() => 'unknown');
  }

  transfer(request: TransferRequest, listener: ReplyListener<TransferReply>): void {
    if (this.mayAsk(listener)) this.memory.transfer(request, listener);
  }

  async forceRelease(request: ForceReleaseRequest): Promise<boolean> {
    this.throwIfDown();
    return this.memory.forceRelease(request);
  }

  async inspect(key: string): Promise<LockState | null> {
    this.throwIfDown();
    return this.memory.inspect(key);
  }

  async *list(request: ListRequest): AsyncGenerator<ListedLock> {
    for await (const listed of this.memory.list(request)) {
      this.throwIfDown();
      yield listed;
    }
    this.throwIfDown();
  }

  async ping(): Promise<StorePing> {
    return { ...(await this.memory.ping()), isUp: this.outage === undefined };
  }

  serverOf(): undefined {
    return undefined;
  }

  /** Leaves the locks as they are, because other module instances use them. */
  async close(): Promise<void> {
    this.reconnecting?.cancel();
    if (this.listener !== undefined) this.memory.forget(this.listener.instanceId);
    this.onClosed();
  }

  /** Reports the outage repeatedly, as a client does with each attempt to connect. */
  private report(outage: Error): void {
    this.listener?.onDown(outage);
    this.reconnecting = this.clock.schedule(RECONNECT_MS, () => this.report(outage), true);
  }

  /** Returns whether a request reaches the store. During an outage, it fails. */
  private mayAsk(listener: ReplyListener<never>): boolean {
    const error = this.errorOfOutage();
    if (error !== undefined) afterPromiseJobs(() => listener.onFailed(error));
    return error === undefined;
  }

  /** @throws LockUnavailableError during an outage. */
  private throwIfDown(): void {
    const error = this.errorOfOutage();
    if (error !== undefined) throw error;
  }

  private errorOfOutage(): LockUnavailableError | undefined {
    const { outage: cause } = this;
    if (cause === undefined) return undefined;
    return new LockUnavailableError(`The store cannot be reached: ${cause.message}`, { cause });
  }
}
