import { Controller, Get, Module } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { RedisLockHealthIndicator } from 'nestjs-redis-lock/terminus';

@Controller('ready')
export class ReadinessController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: RedisLockHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  check() {
    return this.health.check([() => this.locks.isHealthy('locks', { timeout: 500 })]);
  }
}

@Module({
  imports: [TerminusModule],
  controllers: [ReadinessController],
  providers: [RedisLockHealthIndicator],
})
export class ReadinessModule {}
