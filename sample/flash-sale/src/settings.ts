const { PORT, REDIS_URL, STORE } = process.env;

/** The settings in the environment. */
export const settings = {
  port: Number(PORT || 3000),
  redisUrl: REDIS_URL || 'redis://127.0.0.1:6379',
  /** STORE=memory keeps locks and stock in this process, for a machine without Redis. */
  inMemory: STORE === 'memory',
};
