import { Controller, Get, Header, type OnModuleDestroy } from '@nestjs/common';
import { collectLockMetrics } from 'nestjs-redis-lock/prometheus';
import { register } from 'prom-client';

@Controller('metrics')
export class MetricsController implements OnModuleDestroy {
  private readonly stop = collectLockMetrics();

  @Get()
  @Header('content-type', register.contentType)
  metrics(): Promise<string> {
    return register.metrics();
  }

  onModuleDestroy(): void {
    this.stop();
  }
}
