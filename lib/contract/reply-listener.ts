/**
 * Receives the reply to a request or its error, never before the sender has returned. If `onReply` throws, some senders
 * also call `onFailed` with that error. The layers that a request passes are such objects, because closures keep
 * several times as much memory until the reply.
 */
export interface ReplyListener<Reply> {
  onReply(reply: Reply): void;
  onFailed(error: unknown): void;
}
