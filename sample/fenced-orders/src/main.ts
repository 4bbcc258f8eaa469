import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { settings } from './settings.js';

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
  app.enableShutdownHooks();
  await app.listen(settings.port, '127.0.0.1');
  // Sends the parent process the address of this instance.
  process.send?.(await app.getUrl());
}

bootstrap().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
