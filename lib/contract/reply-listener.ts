/**
 * Receives the reply to a request or its error, never before the sender has returned. If `onReply` throws, some senders
 * also call `onFailed` with that error. The layers that a request passes are such objects, because closures keep
 * several times as much memory until the reply.
 */
export interface ReplyListener<Reply> {
  onReply(reply: Reply): void;
  onFailed(error: unknown): void;
}

/** Gives the outcome of a promise to a listener. */
export function answer<Reply>(listener: ReplyListener<Reply>, reply: Promise<Reply>): void {
  void reply.then(
    (value) => listener.onReply(value),
    (error: unknown) => listener.onFailed(error),
  );
}

/** Returns the outcome of a request as a promise. */
export function replyTo<Reply>(ask: (listener: ReplyListener<Reply>) => void): Promise<Reply> {
  return new Promise((onReply, onFailed) => ask({ onReply, onFailed }));
}
