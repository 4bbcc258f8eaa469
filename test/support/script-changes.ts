import { createHash } from 'node:crypto';

/** The statement that a script may run beside that of the last release, although its text has changed. */
export interface CompatibleChange {
  /** The SHA-1 of the script that is meant, so that the next change needs the next statement. */
  readonly sha1: string;
  /** Why an instance of the last release understands what the script writes, and the other way round. */
  readonly why: string;
}

/** The digests of scripts by name. */
export type Digests = Readonly<Record<string, string>>;

interface Compared {
  readonly wire: number;
  readonly scripts: Digests;
}

export function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

/**
 * Returns what is wrong with the scripts of the present code, compared with those of the last release. A script may
 * change with the wire version, or with a statement that its change is compatible. Statements that are of no use are
 * wrong, too.
 */
export function wrongChanges(
  last: Compared,
  present: Compared,
  statements: Readonly<Record<string, CompatibleChange>>,
): readonly string[] {
  if (present.wire < last.wire) return [`the wire version ${present.wire} is lower than that of the last release`];
  const names = new Set([...Object.keys(last.scripts), ...Object.keys(present.scripts), ...Object.keys(statements)]);
  return [...names].flatMap((name) => {
    const digest = present.scripts[name];
    const stated = statements[name];
    const isChanged = digest !== last.scripts[name];
    if (!isChanged) return stated === undefined ? [] : [`${name} is as in the last release, and needs no statement`];
    if (stated !== undefined) return wrongStatement(name, digest ?? 'removed', stated);
    return present.wire > last.wire ? [] : [`${name} has changed to ${digest ?? 'removed'} without a statement`];
  });
}

function wrongStatement(name: string, digest: string, stated: CompatibleChange): readonly string[] {
  if (stated.sha1 !== digest) return [`${name} has changed to ${digest} since its statement`];
  return stated.why.trim().length < 20 ? [`${name} is stated as compatible without a reason`] : [];
}
