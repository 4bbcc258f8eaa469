const { PORT, REDIS_URL, DATABASE_URL, PRICES_URL, LEASE_MS } = process.env;

/** The settings in the environment. */
export const settings = {
  port: Number(PORT || 3000),
  redisUrl: REDIS_URL || 'redis://127.0.0.1:6379',
  databaseUrl: DATABASE_URL || 'postgres://postgres@127.0.0.1:5432/postgres',
  /** A service that returns a price for `GET /<article>`. Without it, every article costs the same. */
  pricesUrl: PRICES_URL,
  leaseMs: Number(LEASE_MS || 30_000),
};
