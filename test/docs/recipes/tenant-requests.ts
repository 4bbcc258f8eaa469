import {
  Controller,
  createParamDecorator,
  type ExecutionContext,
  Param,
  Post,
} from '@nestjs/common';
import { Locked } from 'nestjs-redis-lock';

/** The tenant that a guard found for the user of a request. */
const Tenant = createParamDecorator((_data: unknown, context: ExecutionContext): string => {
  return context.switchToHttp().getRequest<{ user: { tenant: string } }>().user.tenant;
});

@Controller('invoices')
export class InvoicesController {
  @Post(':id/send')
  @Locked('invoice:<tenant>:<id>') // encoded: no value reaches the locks of another tenant
  async send(@Tenant() tenant: string, @Param('id') id: string): Promise<string> {
    return `sent ${id} of ${tenant}`;
  }
}
