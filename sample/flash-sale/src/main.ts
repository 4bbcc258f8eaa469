import { ConsoleLogger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { settings } from './settings.js';

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
  // Without this a process that is told to stop keeps its locks until their leases run out.
  app.enableShutdownHooks();
  await app.listen(settings.port);
  app.useLogger(new ConsoleLogger({ prefix: `port ${settings.port}` }));
  // Tells whoever started this process, here start.ts, that it can be called now.
  process.send?.('ready');
}

bootstrap().catch((error: NodeJS.ErrnoException) => {
  const inUse = error.code === 'EADDRINUSE';
  console.error(inUse ? `Port ${settings.port} is in use: set PORT to a free one.` : error);
  process.exit(1);
});
