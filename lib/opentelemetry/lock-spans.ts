import { type Context, context, type Span, SpanKind, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api';
import type { LockCallContext, WorkMessage } from '../events/tracing.js';
import { errorTypeOf, FENCING_TOKEN, outcomeAttributes, spanAttributes } from './attributes.js';

/** The spans of one call, and the context that it was made in. */
interface CallSpans {
  readonly parent: Context;
  acquire?: Span;
  hold?: Span;
}

/** Makes the spans of calls and holds. */
export class LockSpans {
  private readonly calls = new WeakMap<LockCallContext, CallSpans>();

  constructor(private readonly tracer: () => Tracer) {}

  onRequested(call: LockCallContext): void {
    const spans: CallSpans = { parent: context.active() };
    this.calls.set(call, spans);
    spans.acquire = this.start('acquire', call, spans.parent);
  }

  onAcquired(call: LockCallContext): void {
    const span = this.calls.get(call)?.acquire;
    if (call.fencingToken !== undefined) span?.setAttribute(FENCING_TOKEN, call.fencingToken);
    end(span, call);
  }

  onHeld(call: LockCallContext): void {
    // The caller's context, because the grant may come with the reply to another caller's request.
    const spans: CallSpans = this.calls.get(call) ?? { parent: context.active() };
    this.calls.set(call, spans);
    spans.hold = this.start('hold', call, spans.parent);
  }

  onEnded(call: LockCallContext): void {
    end(this.calls.get(call)?.hold, call);
  }

  /** Runs the work inside the span of its hold, or of the first of its holds. */
  onWork(message: WorkMessage): void {
    const { calls, run } = message;
    const span = calls.map((call) => this.calls.get(call)?.hold).find((hold) => hold !== undefined);
    if (span === undefined) return;
    // Now, not when the work is called. An error here is reported, but there it would reach the caller.
    const inside = trace.setSpan(context.active(), span);
    message.run = () => context.with(inside, run);
  }

  private start(operation: 'acquire' | 'hold', call: LockCallContext, parent: Context): Span {
    const options = { kind: SpanKind.INTERNAL, attributes: spanAttributes(call) };
    return this.tracer().startSpan(`${operation} ${call.family}`, options, parent);
  }
}

function end(span: Span | undefined, call: LockCallContext): void {
  if (span === undefined) return;
  span.setAttributes(outcomeAttributes(call));
  if (errorTypeOf(call) !== undefined) {
    const message = call.error instanceof Error ? call.error.message : undefined;
    span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message }) });
  }
  span.end();
}
