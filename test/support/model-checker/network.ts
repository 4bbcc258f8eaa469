import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockMode,
  ReleaseRequest,
} from '../../../lib/core/store/lock-store.js';

interface SentRequest<Verb, Body, ReplyBodyOf> {
  readonly verb: Verb;
  readonly body: Body;
  readonly onReply: (reply: ReplyBodyOf) => void;
  /** What the receiver of the reply knows of the request. It is part of the state. */
  readonly sender: unknown;
}

/** A release by force. It comes from somebody who neither holds the lock nor waits for it. */
interface ForceBody {
  /** One of the owners that lose the lock, and its mode. */
  readonly owner: string;
  readonly mode: LockMode;
  readonly tokens: number;
  readonly handoffMs: number;
}

/** A request on its way. */
export type Request =
  | SentRequest<'acquire', AcquireRequest, AcquireReply>
  | SentRequest<'release', ReleaseRequest, boolean>
  | SentRequest<'extend', ExtendRequest, ExtendReply>
  | SentRequest<'forceRelease', ForceBody, boolean>;

export type ReplyBody = AcquireReply | ExtendReply | boolean;

/** A reply on its way back. */
export interface Reply {
  readonly request: Request;
  readonly body: ReplyBody;
}

/** A message on its way to its process: a handoff, or that its lock was released by force. */
export type Message = HandoffMessage | ForcedMessage;

export interface ForcedMessage {
  readonly forced: true;
}

export interface HandoffMessage {
  readonly mode: LockMode;
  readonly owner: string;
  readonly token: number;
  readonly tokens: number;
  readonly leaseMs: number;
  readonly granted: boolean;
  /** When it was granted. */
  readonly since: number;
}

/** The requests that a closed connection had on its way. The server may still run them, in order, or never get them. */
export interface Leftover {
  readonly process: number;
  /** The number of the connection in its process. */
  readonly connection: number;
  readonly requests: readonly Request[];
}

/** The connections between one process and the server. What arrives, arrives in the order in which it was sent. */
export class Line {
  requests: Request[] = [];
  replies: Reply[] = [];
  messages: Message[] = [];
  /** How many command connections there were, including this one. */
  connection = 1;
  /** `closed`: the server counts no subscriber. `half-open`: it counts one, but no message arrives. */
  subscription: 'open' | 'half-open' | 'closed' = 'open';

  /** Closes the command connection. Returns the requests that were on their way. */
  cut(): Request[] {
    const { requests } = this;
    this.requests = [];
    this.replies = [];
    this.connection += 1;
    return requests;
  }

  /** Delivers the first reply. */
  deliverReply(): void {
    const { request, body } = this.replies.shift() as Reply;
    (request.onReply as (reply: ReplyBody) => void)(body);
  }
}
