import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockMode,
  ReleaseRequest,
} from '../../lib/core/store/lock-store.js';

interface Asked<Verb, Body, Answer> {
  readonly verb: Verb;
  readonly body: Body;
  readonly answered: (reply: Answer) => void;
  /** What whoever takes in the answer knows of it: part of the state. */
  readonly asker: unknown;
}

/** A request on its way, and who takes in its answer. */
export type Request =
  | Asked<'acquire', AcquireRequest, AcquireReply>
  | Asked<'release', ReleaseRequest, boolean>
  | Asked<'extend', ExtendRequest, ExtendReply>;

export type ReplyBody = AcquireReply | ExtendReply | boolean;

/** An answer on its way back. */
export interface Reply {
  readonly request: Request;
  readonly body: ReplyBody;
}

/** A hand-off on its way to its process. */
export interface Message {
  readonly mode: LockMode;
  readonly owner: string;
  readonly token: number;
  readonly tokens: number;
  readonly leaseMs: number;
  readonly granted: boolean;
  /** When it was granted. */
  readonly since: number;
}

/** What a connection that has ended left on its way: the server may run it still, in order, or never see it. */
export interface Leftover {
  readonly process: number;
  /** Which of the process's connections it was. */
  readonly connection: number;
  readonly requests: readonly Request[];
}

/** What stands between one process and the server. Everything arrives in the order in which it was sent, if it arrives. */
export class Line {
  requests: Request[] = [];
  replies: Reply[] = [];
  messages: Message[] = [];
  /** How many there were, this one included. */
  connection = 1;
  /** `gone`: the server counts no listener; `deaf`: it does, but nothing arrives. */
  subscription: 'heard' | 'deaf' | 'gone' = 'heard';

  /** Ends the command connection; answers what was on its way to the server. */
  cut(): Request[] {
    const { requests } = this;
    this.requests = [];
    this.replies = [];
    this.connection += 1;
    return requests;
  }

  /** Hands the first answer to whoever asked. */
  answer(): void {
    const { request, body } = this.replies.shift() as Reply;
    (request.answered as (reply: ReplyBody) => void)(body);
  }
}
