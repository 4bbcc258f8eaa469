import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { identityOf } from '../../lib/contract/instance-id.js';
import { readTicket } from '../../lib/engine/ticket.js';
import { encodeValue } from '../../lib/keys/key-values.js';
import { createKeyFactory, helperKey } from '../../lib/keys/resource-key.js';
import { FenceKeys } from '../../lib/redis/slots.js';
import { WIRE_VERSION as QUORUM_VERSION } from '../../lib/redis/wire.js';
import * as wire from '../../lib/stores/token/wire.js';
import { embeddedScripts } from '../support/embedded-scripts.js';

const FILE = join(__dirname, '../interop/rolling/wire.txt');

const OWNER = 'api-1-AbCdEfGhIjKlMnOp:7';
const TOKEN = '1767225720000000';
const EXCLUSIVE = { owner: OWNER, mode: 'exclusive' } as const;
const TICKET = `t1-${'Ab0_-x'.repeat(5)}`;
/** A server whose clock is that of its tokens. */
const CLOCK = { localTimeOf: (micros: number) => micros };

const keyOf = createKeyFactory({ prefix: 'lock_', hashTag: 'family' });
const heldBy = (value: string) => wire.decodeAcquire([1, 5_000, value, 0, 2], CLOCK);

/** What instances of two builds write for each other and read of each other. */
const FORMATS: Readonly<Record<string, () => unknown>> = {
  'key of goods:300': () => keyOf('goods:300'),
  'key of report': () => keyOf('report'),
  'key of goods:{300}': () => keyOf('goods:{300}'),
  'key with hashTag resource': () => createKeyFactory({ prefix: 'lock_', hashTag: 'resource' })('goods:300'),
  'value ä b:c%{}|': () => encodeValue('ä b:c%{}|', () => 'a value'),
  'value of 129 bytes': () => encodeValue('x'.repeat(129), () => 'a value'),
  'keys of a lock': () => Object.values(wire.keysOf('{lock_goods}:300', new FenceKeys('lock_').shared)),
  'keys of a lock without a tag': () => Object.values(wire.keysOf('goods', '{}|fence', 'app:')),
  'fence of a slot': () => new FenceKeys('lock_').of('{lock_goods}:300'),
  'key of a RedisFence': () => helperKey('order:300', 'opened'),
  'end of a channel': () => wire.channelEnd('api-1-AbCdEfGhIjKlMnOp'),
  'identity in an id': () => identityOf('api_2e1-AbCdEfGhIjKlMnOp'),
  'entry, exclusive': () => wire.entryOf(EXCLUSIVE),
  'entry, shared': () => wire.entryOf({ owner: OWNER, mode: 'shared' }),
  'entry, one of 3 permits': () => wire.entryOf({ owner: OWNER, mode: 3 }),
  'method and label': () => wire.aboutOf({ ...EXCLUSIVE, method: 'Goods.buy', label: 'order 7, ä' }),
  'owner of a ticket': () => readTicket(TICKET, 'goods:300'),
  'reads a value': () => heldBy(`v2-${OWNER} ${TOKEN}`),
  'reads a value with a label': () => heldBy(`v2-${OWNER} ${TOKEN} Goods.buy order%207`),
  'reads a closed lock': () => heldBy(`v2-!${OWNER} ${TOKEN}`),
  'reads a lock that is done': () => heldBy(`v2-!!${OWNER} ${TOKEN}`),
  'reads a detached lock': () => heldBy(`v2-detached:Ab0_-x ${TOKEN} 1767225790000`),
  'reads sharers': () => wire.decodeHolders([`v2-${OWNER} *`, 5_000, `v2-${OWNER} 3`, 6_000]),
  'reads a queue': () => wire.decodeQueue([`v2-${OWNER}`, `v2-${OWNER} *`, `v2-${OWNER} 3`]),
  'reads a message': () => wire.decodeWake(`${OWNER} - {lock_goods}:300`),
  'reads a message to a sharer': () => wire.decodeWake(`${OWNER} 3 {lock_goods}:300`),
};

const digestOf = (text: string): string => createHash('sha1').update(text).digest('hex');

function currentLines(): readonly string[] {
  const versions = [`wire version of token(): ${wire.WIRE_VERSION}`, `wire version of quorum(): ${QUORUM_VERSION}`];
  const scripts = [...embeddedScripts].map(([name, lua]) => `script ${name}: ${digestOf(lua)}`).toSorted();
  const formats = Object.entries(FORMATS).map(([name, format]) => `${name}: ${JSON.stringify(format())}`);
  return [...versions, ...scripts, ...formats];
}

const ADVICE = `
Instances of the last release use the same locks during a deployment. Does each of the two understand what the other
writes to Redis and sends, in every mode?
- Yes: run npx jest --config jest.full.config.cjs test/interop/rolling, then accept the change with
  WRITE_WIRE=1 npx jest test/unit/wire-format.spec.ts, and say in the commit why they understand each other.
- No: raise the wire version. CONTRIBUTING.md, "The wire version", has the steps.
`;

it('what instances share in Redis is what the last accepted build shares', () => {
  const lines = currentLines();
  if (process.env.WRITE_WIRE === '1') writeFileSync(FILE, `${lines.join('\n')}\n`);
  const accepted = readFileSync(FILE, 'utf8').trimEnd().split('\n');
  const changed = [
    ...accepted.filter((line) => !lines.includes(line)).map((line) => `- ${line}`),
    ...lines.filter((line) => !accepted.includes(line)).map((line) => `+ ${line}`),
  ];
  if (changed.length > 0) throw new Error(`The wire has changed:\n${changed.join('\n')}\n${ADVICE}`);
  expect(lines).toEqual(accepted);
});
