import { Injectable } from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, LockTimeoutError } from 'nestjs-redis-lock';
import { closeApps, startApp, type TestApp } from './support/app.js';

interface Message {
  readonly id: number;
}

@Injectable()
class Shipments {
  @Locked('parcel:<message.id>', { waitMs: 0 })
  async deliver(message: Message): Promise<string> {
    return `delivered ${message.id}`;
  }

  async forward(message: Message): Promise<string> {
    return this.deliver(message);
  }
}

type Handler = (...args: unknown[]) => Promise<unknown>;

/** Returns a handler as packages such as those for RabbitMQ, Telegram and Discord make it. */
function handlerOf(app: TestApp, name: 'deliver' | 'forward', contextType?: string): Handler {
  const shipments = app.nest.get(Shipments);
  return app.nest
    .get(ExternalContextCreator)
    .create(
      shipments,
      shipments[name] as never,
      name,
      '__routeArguments__',
      undefined,
      undefined,
      undefined,
      undefined,
      contextType as never,
    ) as Handler;
}

/** The names that such packages give their contexts, with the arguments that they pass. */
const CONTEXTS: [contextType: string | undefined, args: unknown[]][] = [
  ['rmq', [{ id: 5 }, { fields: {}, properties: {} }]],
  ['telegraf', [{ id: 5 }, () => undefined]],
  ['necord', [{ id: 5 }, { send: () => undefined }]],
  // Nest's default, and names that Nest itself uses.
  [undefined, [{ id: 5 }]],
  ['http', [{ id: 5 }, { headers: {} }]],
];

afterEach(closeApps);

describe('handlers that other packages call', () => {
  it.each(CONTEXTS)('reject with the error of a busy lock in a context of type %s', async (contextType, args) => {
    const app = await startApp({ providers: [Shipments] });
    const held = await app.locks.acquire('parcel:5');
    for (const name of ['deliver', 'forward'] as const) {
      await expect(handlerOf(app, name, contextType)(...args)).rejects.toBeInstanceOf(LockTimeoutError);
    }
    await held.release();
    await expect(handlerOf(app, 'deliver', contextType)(...args)).resolves.toBe('delivered 5');
    expect(await app.isLocked('parcel:5')).toBe(false);
  });
});
