import { Controller, Headers, Param, Post } from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';

@Controller('invoices')
export class InvoicesController {
  @Post(':id/send')
  @Locked('invoice:<tenant>:<id>') // encoded: no value reaches the locks of another tenant
  async send(@Headers('x-tenant') tenant: string, @Param('id') id: string): Promise<string> {
    return `sent ${id} of ${tenant}`;
  }
}
