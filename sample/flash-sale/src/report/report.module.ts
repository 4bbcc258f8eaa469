import { Module } from '@nestjs/common';
import { GoodsModule } from '../goods/goods.module.js';
import { ReportService } from './report.service.js';

@Module({ imports: [GoodsModule], providers: [ReportService] })
export class ReportModule {}
