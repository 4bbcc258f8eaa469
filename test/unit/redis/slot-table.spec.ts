import { describe, expect, it } from '@jest/globals';
import { addressesBySlot } from '../../../lib/redis/redirection.js';

const REPLY = [
  [0, 8_191, ['10.0.0.1', 7_001, 'id', []], ['10.0.0.2', 7_002, 'id', []]],
  [8_192, 16_382, ['', 7_003, 'id', []]],
];

describe('addressesBySlot()', () => {
  it('returns the master and the replicas of each slot', () => {
    const slots = addressesBySlot(REPLY, '10.0.0.3:7009', undefined);
    expect(slots).toHaveLength(16_384);
    expect(slots[0]).toEqual(['10.0.0.1:7001', '10.0.0.2:7002']);
    expect(slots[8_191]).toBe(slots[0]);
    expect(slots[16_383]).toBeUndefined();
  });

  it.each(['', '?', null])('takes the host of the node that replied for the host %p', (host) => {
    const slots = addressesBySlot([[0, 0, [host, 7_003, 'id', []]]], '10.0.0.3:7009', undefined);
    expect(slots[0]).toEqual(['10.0.0.3:7003']);
  });

  it('translates addresses, and leaves those that are not mapped', () => {
    const map = { '10.0.0.1:7001': { host: 'localhost', port: 30_001 } };
    expect(addressesBySlot(REPLY, '10.0.0.3:7009', map)[0]).toEqual(['localhost:30001', '10.0.0.2:7002']);
    const byFunction = (address: string) => (address === '10.0.0.2:7002' ? { host: 'localhost', port: 30_002 } : null);
    expect(addressesBySlot(REPLY, '10.0.0.3:7009', byFunction)[0]).toEqual(['10.0.0.1:7001', 'localhost:30002']);
  });

  it('refuses the reply of a node that knows no slots', () => {
    expect(() => addressesBySlot([], '10.0.0.3:7009', undefined)).toThrow('the node knows no slots');
  });
});
