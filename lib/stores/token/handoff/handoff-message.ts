import { createHash } from 'node:crypto';
import type { LockMode } from '../../../core/store/lock-store.js';
import { decodeMode } from '../queue-entry.js';

/** What a script publishes when it hands off a lock (`scripts/includes/notify.lua`). */
export interface HandoffMessage {
  /** The number of the attempt, the second part of its owner. */
  readonly attempt: string;
  /** The grant. Undefined if the message does not prove that a script wrote it. */
  readonly grant: HandoffGrant | undefined;
}

export interface HandoffGrant {
  readonly token: number;
  readonly tokens: number;
  /** Server time in µs. Undefined if the lock was not granted, and the instance has to repeat its request. */
  readonly grantedAt: number | undefined;
  readonly leaseMs: number;
  readonly mode: LockMode;
  /** The key as the script got it, with the client's prefix. */
  readonly key: string;
}

/**
 * `<sha1> <attempt> <token> <tokens> <grantedAt> <leaseMs> <mode> <key>`. The mode is empty for an exclusive lock. The
 * key of another system may contain any character.
 */
const MESSAGE = /^([\da-f]{40}) ((\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,16}) (\*|\d{1,16}|) ([^]+))$/;

/**
 * Decodes a handoff message. Returns undefined for any other text. The grant is trusted only if the message begins with
 * the SHA-1 of its text and the secret. The secret stands only in queue entries, so a client that may use the channels
 * but not the keys can repeat a message but not change it.
 */
export function decodeHandoff(message: string, secret: string): HandoffMessage | undefined {
  const [, digest, text, attempt, token, tokens, grantedAt, leaseMs, mode, key] = MESSAGE.exec(message) ?? [];
  if (text === undefined) return undefined;
  if (digest !== digestOf(text, secret)) return { attempt, grant: undefined };
  const grant = {
    token: Number(token),
    tokens: Number(tokens),
    grantedAt: Number(grantedAt) || undefined,
    leaseMs: Number(leaseMs),
    mode: decodeMode(mode),
    key,
  };
  return { attempt, grant };
}

const FORCED = 'forced ';

/**
 * Decodes the message that a lock was released by force (`scripts/includes/notify-forced.lua`). Returns the
 * key as the script got it, with the client's prefix, or undefined for any other text. Nothing proves that a script
 * wrote it: a forged message makes the instance check its lock, but ends no hold.
 */
export function decodeForced(message: string): string | undefined {
  return message.startsWith(FORCED) ? message.slice(FORCED.length) : undefined;
}

function digestOf(text: string, secret: string): string {
  return createHash('sha1').update(`${text} ${secret}`).digest('hex');
}
