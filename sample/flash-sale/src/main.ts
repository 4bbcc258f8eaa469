import { once } from 'node:events';
import { ConsoleLogger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { AppModule } from './app.module.js';
import { REPORT } from './report/report.service.js';
import { settings } from './settings.js';

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, {
    logger: ['warn', 'error', 'fatal'],
    // A browser opens connections before it needs them. The end of this process would wait for them.
    forceCloseConnections: true,
  });
  // Releases the locks on a signal. Without it they stay held until their leases expire.
  app.enableShutdownHooks();
  await app.listen(settings.port, settings.address);
  app.useLogger(new ConsoleLogger({ prefix: `port ${settings.port}` }));
  // Notifies the parent process that this instance accepts requests at this address.
  process.send?.(await app.getUrl());
  // npm start first prints where the instances are.
  if (process.send) await once(process, 'message');
  app.get(SchedulerRegistry).getCronJob(REPORT).start();
}

bootstrap().catch((error: NodeJS.ErrnoException) => {
  const inUse = error.code === 'EADDRINUSE';
  console.error(inUse ? `Port ${settings.port} is in use: set PORT to a free one.` : error);
  process.exit(1);
});
