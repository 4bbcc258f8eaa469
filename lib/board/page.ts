import { createHash } from 'node:crypto';
import { assets } from './assets.js';

/** What differs between two pages. */
export interface PageValues {
  /** The name of the module instance. */
  readonly name: string;
  /** Whether the page can release locks. */
  readonly allowRelease: boolean;
}

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** The browser runs one script and uses one style sheet, which it knows by their hashes. It loads nothing else. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src ${hashOf(assets.script)}`,
  `style-src ${hashOf(assets.style)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const COMMON_HEADERS = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The headers of the page. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  ...COMMON_HEADERS,
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'X-Frame-Options': 'DENY',
};

/** The headers of everything else. */
export const API_HEADERS: Readonly<Record<string, string>> = {
  ...COMMON_HEADERS,
  'Content-Type': 'application/json; charset=utf-8',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
};

/** Returns the page as HTML. */
export function pageOf({ name, allowRelease }: PageValues): string {
  const values: Readonly<Record<string, string>> = {
    name: escapeHtml(name),
    release: String(allowRelease),
    style: assets.style,
    script: assets.script,
  };
  return assets.page.replace(/\{\{(\w+)\}\}/g, (placeholder, key: string) => values[key] ?? placeholder);
}

function escapeHtml(text: string): string {
  return text.replace(/[^\w .:-]/gu, (char) => `&#${char.codePointAt(0)};`);
}
