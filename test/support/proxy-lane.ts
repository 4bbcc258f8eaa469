import type { Socket } from 'node:net';

type Mode = 'flow' | 'hold' | 'drop';

/** `null` is the end of the stream and keeps its place behind the bytes before it. */
interface Parcel {
  readonly bytes: Buffer | null;
  readonly dueAt: number;
}

/** One direction of one connection: the bytes that have not been sent on yet. */
export class Pipe {
  private readonly queue: Parcel[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private lane: Lane,
    private readonly to: Socket,
  ) {}

  /** Follows another lane from now on. Bytes that are queued keep their time. */
  moveTo(lane: Lane): void {
    this.lane.leave(this);
    this.lane = lane;
    lane.join(this);
    this.pump();
  }

  /** @param laterMs is added to the delay of the lane. */
  push(bytes: Buffer | null, laterMs = 0): void {
    if (this.lane.mode === 'drop' && bytes) return;
    this.queue.push({ bytes, dueAt: performance.now() + this.lane.delayMs + laterMs });
    this.pump();
  }

  pump(): void {
    clearTimeout(this.timer);
    while (this.queue.length > 0 && this.lane.mode !== 'hold') {
      const wait = this.queue[0].dueAt - performance.now();
      if (wait > 0) {
        this.timer = setTimeout(() => this.pump(), wait);
        return;
      }
      const { bytes } = this.queue.shift()!;
      if (bytes) this.to.write(bytes);
      else this.to.end();
    }
  }

  close(): void {
    clearTimeout(this.timer);
    this.queue.length = 0;
    this.lane.leave(this);
  }
}

/** One direction of all present and future connections. */
export class Lane {
  private readonly pipes = new Set<Pipe>();
  private currentMode: Mode = 'flow';
  delayMs = 0;

  get mode(): Mode {
    return this.currentMode;
  }

  set mode(mode: Mode) {
    this.currentMode = mode;
    for (const pipe of this.pipes) pipe.pump();
  }

  open(to: Socket): Pipe {
    const pipe = new Pipe(this, to);
    this.join(pipe);
    to.once('close', () => pipe.close());
    return pipe;
  }

  join(pipe: Pipe): void {
    this.pipes.add(pipe);
  }

  leave(pipe: Pipe): void {
    this.pipes.delete(pipe);
  }
}
