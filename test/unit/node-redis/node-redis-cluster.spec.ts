import { describe, expect, it } from '@jest/globals';
import type { ClusterClient } from '../../../lib/redis/client-port.js';
import { NODE_REDIS } from '../../support/client-libraries.js';

describe.each(NODE_REDIS)('a cluster of $name', (library) => {
  const portOf = (options: object) => {
    const rootNodes = [{ url: 'redis://localhost' }];
    return library.adapt(library.redis.createCluster({ rootNodes, ...options })) as ClusterClient;
  };

  it('is named by its root nodes, without passwords', () => {
    const rootNodes = [
      { url: 'redis://user:secret@a.example:7001' },
      { socket: { host: '10.0.0.1', port: 7_002 } },
      { url: 'redis://[::1]' },
      {},
    ];
    expect(portOf({ rootNodes }).givenNodes).toEqual(['a.example:7001', '10.0.0.1:7002', '::1:6379', 'localhost:6379']);
  });

  it('keeps its nodeAddressMap', () => {
    const nodeAddressMap = { '10.0.0.1:7001': { host: 'localhost', port: 30_001 } };
    expect(portOf({ nodeAddressMap }).natMap).toBe(nodeAddressMap);
    expect(portOf({}).natMap).toBeUndefined();
  });
});
