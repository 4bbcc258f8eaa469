const { PORT, REDIS_URL, STORE } = process.env;

/** What the environment says. */
export const settings = {
  port: Number(PORT || 3000),
  redisUrl: REDIS_URL || 'redis://127.0.0.1:6379',
  /** STORE=memory, for a machine without Redis: locks and stock of this process alone. */
  inMemory: STORE === 'memory',
};
