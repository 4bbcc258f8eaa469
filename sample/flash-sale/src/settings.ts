const { PORT, LISTEN_ADDRESS, REDIS_URL, STORE, PAYMENT_MS, INSTANCES } = process.env;

/** The settings in the environment. */
export const settings = {
  port: Number(PORT || 3000),
  /** Only this machine can reach the sample, because its board has no guard. */
  address: LISTEN_ADDRESS || '127.0.0.1',
  redisUrl: REDIS_URL || 'redis://127.0.0.1:6379',
  /** STORE=memory keeps locks and stock in this process, for a machine without Redis. */
  inMemory: STORE === 'memory',
  /** The time between reading and writing the stock: in a real application a payment, or a call to another service. */
  paymentMs: Number(PAYMENT_MS || 25),
  /** The ports of all instances, this one included. Empty if this is the only one. */
  instances: (INSTANCES ?? '').split(',').filter(Boolean).map(Number),
};
