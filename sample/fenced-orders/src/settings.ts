const { PORT, REDIS_URL, DATABASE_URL, PRICES_URL, LEASE_MS } = process.env;

/** What the environment says. */
export const settings = {
  port: Number(PORT || 3000),
  redisUrl: REDIS_URL || 'redis://127.0.0.1:6379',
  databaseUrl: DATABASE_URL || 'postgres://postgres@127.0.0.1:5432/postgres',
  /** Answers `GET /<article>` with a price; without it, every article costs the same. */
  pricesUrl: PRICES_URL,
  leaseMs: Number(LEASE_MS || 30_000),
};
