/** A place in the source of a program. */
export interface CallSite {
  /** The name of the function, `StockService.buy`. Undefined if it has none. */
  readonly name: string | undefined;
  /** The path of the file. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `at StockService.buy (/app/stock.service.ts:41:20)`, `at async file:///app/main.mjs:3:1` */
const FRAME = /^\s*at (?:async )?(?:(.*?) \()?(?:file:\/\/)?([^()]+?):(\d+):(\d+)\)?$/;

/** How many frames this library puts between a caller and the place that reads the stack, at most. */
const DEPTH = 30;

// The folder of this library, as stacks show it: the sources, or the built package.
const OWN_FOLDER = /^.*[\\/](?:lib|dist)[\\/]/.exec(framesOf(stackHere())[0]?.file ?? '')?.[0];

/** Returns the frames of a stack that are in files, the innermost first. */
function framesOf(stack: string): readonly CallSite[] {
  const frames: CallSite[] = [];
  for (const line of stack.split('\n')) {
    const frame = toFrame(line);
    if (frame !== undefined) frames.push(frame);
  }
  return frames;
}

/** Returns the place of one line of a stack. Undefined for a function of the engine, which has no file. */
function toFrame(line: string): CallSite | undefined {
  const [, name, file, at, column] = FRAME.exec(line) ?? [];
  if (file === undefined || file === '<anonymous>') return undefined;
  return { name, file, line: Number(at), column: Number(column) };
}

/** Returns whether a place is in the program, and neither in a package, nor in this library or in Node. */
function isOfProgram({ file }: Pick<CallSite, 'file'>): boolean {
  if (/[\\/]node_modules[\\/]|^node:/.test(file)) return false;
  return OWN_FOLDER === undefined || !withoutScheme(file).startsWith(OWN_FOLDER);
}

function withoutScheme(file: string): string {
  return file.startsWith('file://') ? file.slice('file://'.length) : file;
}

/**
 * Returns the innermost place of the program that has called the present function. Undefined if it is unknown. Never
 * throws.
 */
export function callerInProgram(): CallSite | undefined {
  return framesOf(stackHere()).find(isOfProgram);
}

/**
 * Returns the place of the function that has called `of`, as the engine knows it and as source maps show it. Undefined
 * if that is no function of the program.
 */
export function callerOf(of: (...args: never[]) => unknown): CallSite | undefined {
  const [raw] = rawFrames(of);
  const file = raw?.getFileName();
  // Most callers are in packages. Source maps are read for the others only.
  if (typeof file !== 'string' || !isOfProgram({ file })) return undefined;
  const { stackTraceLimit } = Error;
  const holder: { readonly stack?: string } = {};
  Error.stackTraceLimit = 1;
  Error.captureStackTrace(holder, of);
  try {
    const [frame] = framesOf(holder.stack ?? '');
    return frame && isOfProgram(frame) ? { ...frame, name: nameOf(raw) } : undefined;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function rawFrames(of: (...args: never[]) => unknown): readonly NodeJS.CallSite[] {
  const { stackTraceLimit } = Error;
  const format = Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace');
  const holder: { readonly stack?: readonly NodeJS.CallSite[] } = {};
  Error.prepareStackTrace = (_error, frames) => frames;
  Error.stackTraceLimit = 1;
  try {
    Error.captureStackTrace(holder, of);
    return holder.stack ?? [];
  } finally {
    if (format === undefined) Reflect.deleteProperty(Error, 'prepareStackTrace');
    else Object.defineProperty(Error, 'prepareStackTrace', format);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Returns `StockService.buy`. Source maps give a function the name of what it calls. */
function nameOf(frame: NodeJS.CallSite): string | undefined {
  const name = frame.getFunctionName();
  const type = frame.getTypeName();
  if (name === null || type === null || type === 'Object' || name.includes('.')) return name ?? undefined;
  return `${type}.${name}`;
}

/** Returns the present stack, deep enough to leave this library. Empty if the program formats or freezes stacks. */
function stackHere(): string {
  const { stackTraceLimit } = Error;
  Reflect.set(Error, 'stackTraceLimit', DEPTH);
  try {
    const { stack } = new Error() as { readonly stack?: unknown };
    return typeof stack === 'string' ? stack : '';
  } catch {
    return '';
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/** Returns a place as `stock.service.ts:41:20`. */
export function shortSite({ file, line, column }: CallSite): string {
  return `${file.split(/[\\/]/).at(-1)}:${line}:${column}`;
}
