/** A place in the source of a program. */
export interface CallSite {
  /** The name of the function, `StockService.buy`. Undefined if it has none. */
  readonly name: string | undefined;
  /** The path of the file. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A function whose frame, and all frames above it, are left out of a stack. */
type Callee = (...args: never[]) => unknown;

/** `at StockService.buy (/app/stock.service.ts:41:20)`, `at async file:///app/main.mjs:3:1` */
const FRAME = /^\s*at (?:async )?(?:(.*?) \()?(?:file:\/\/)?([^()]+?):(\d+):(\d+)\)?$/;

/** The maximum number of frames that this library puts between a caller and the place that reads the stack. */
const DEPTH = 30;

/** The path of this file, or of the file that a bundler has put it into. Undefined if the program formats stacks. */
export const OWN_FILE = framesOf(stackText(DEPTH))[0]?.file;

const OWN_PLACE = OWN_FILE === undefined ? undefined : ownPlace(OWN_FILE);

/** Returns what the paths of this library's files begin with. @param ownFile see {@link OWN_FILE}. */
export function ownPlace(ownFile: string): string {
  const [, sources] = /^(.*[\\/])core[\\/]context[\\/]call-site\.\w+$/.exec(ownFile) ?? [];
  const [, built] = /^(.*[\\/]dist[\\/])(?:esm|cjs)[\\/](?:chunks[\\/])?[^\\/]+$/.exec(ownFile) ?? [];
  // The files next to a bundle are those of the program.
  return sources ?? built ?? ownFile;
}

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

/** Returns whether a place is in the program, and not in a package, this library or Node. */
function isOfProgram({ file }: Pick<CallSite, 'file'>): boolean {
  if (/[\\/]node_modules[\\/]|^node:/.test(file)) return false;
  return OWN_PLACE === undefined || !withoutScheme(file).startsWith(OWN_PLACE);
}

function withoutScheme(file: string): string {
  return file.startsWith('file://') ? file.slice('file://'.length) : file;
}

/**
 * Returns the innermost place in the program that called the current function. Undefined if it is unknown, for example
 * in a bundle of the program and this library without source maps. Never throws.
 */
export function callerInProgram(): CallSite | undefined {
  return framesOf(stackText(DEPTH)).find(isOfProgram);
}

/**
 * Returns the place of the function that called `callee`, as the engine knows it and as source maps show it.
 * Undefined if that is not a function of the program. Never throws.
 */
export function callerOf(callee: Callee): CallSite | undefined {
  const [raw] = rawFrames(1, callee);
  const file = raw?.getFileName();
  // Most callers are in packages. Source maps are read only for the others.
  if (typeof file !== 'string' || !isOfProgram({ file })) return undefined;
  const [frame] = framesOf(stackText(1, callee));
  return frame && isOfProgram(frame) ? { ...frame, name: nameOf(raw) } : undefined;
}

/**
 * Returns the places that called `callee`, the innermost first, in one line. Does not use source maps, which are slow.
 * Undefined if they are unknown. Never throws.
 *
 * @param most the maximum number of places.
 */
export function callersOf(callee: Callee, most: number): string | undefined {
  try {
    return rawFrames(most, callee).map(String).join(', from ') || undefined;
  } catch {
    // The source of a frame may throw.
    return undefined;
  }
}

/** Returns `StockService.buy`. Source maps give a function the name of what it calls. */
function nameOf(frame: NodeJS.CallSite): string | undefined {
  const name = frame.getFunctionName();
  const type = frame.getTypeName();
  if (name === null || type === null || type === 'Object' || name.includes('.')) return name ?? undefined;
  return `${type}.${name}`;
}

/** Returns at most `most` frames below `callee` as the engine knows them. Empty if the program freezes `Error`. */
function rawFrames(most: number, callee: Callee): readonly NodeJS.CallSite[] {
  const format: unknown = Reflect.get(Error, 'prepareStackTrace');
  Reflect.set(Error, 'prepareStackTrace', (_error: unknown, frames: readonly NodeJS.CallSite[]) => frames);
  try {
    const stack = capture(most, callee);
    return Array.isArray(stack) ? (stack as readonly NodeJS.CallSite[]) : [];
  } finally {
    Reflect.set(Error, 'prepareStackTrace', format);
  }
}

/** Returns the current stack as text, or the part below `callee`. Empty if the program formats or freezes stacks. */
function stackText(most: number, callee?: Callee): string {
  const stack = capture(most, callee);
  return typeof stack === 'string' ? stack : '';
}

function capture(most: number, callee: Callee | undefined): unknown {
  const { stackTraceLimit } = Error;
  const holder: { readonly stack?: unknown } = {};
  Reflect.set(Error, 'stackTraceLimit', most);
  try {
    Error.captureStackTrace(holder, callee);
    return holder.stack;
  } catch {
    // The program's own stack format may throw.
    return undefined;
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/** Returns a place as `stock.service.ts:41:20`. */
export function shortSite({ file, line, column }: CallSite): string {
  return `${file.split(/[\\/]/).at(-1)}:${line}:${column}`;
}
