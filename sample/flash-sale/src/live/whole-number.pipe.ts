import { type ArgumentMetadata, BadRequestException, type PipeTransform } from '@nestjs/common';

/** Accepts whole numbers from `min` to `max`, in digits if they come in a query. Everything else is a 400. */
export class WholeNumberPipe implements PipeTransform<unknown, number> {
  constructor(
    private readonly min: number,
    private readonly max: number,
    /** The value if there is none. */
    private readonly fallback?: number,
  ) {}

  transform(value: unknown, { data = 'the value' }: ArgumentMetadata): number {
    if (value === undefined && this.fallback !== undefined) return this.fallback;
    const isWritten = typeof value === 'string' && /^\d{1,16}$/.test(value);
    const number = isWritten || typeof value === 'number' ? Number(value) : Number.NaN;
    if (Number.isSafeInteger(number) && number >= this.min && number <= this.max) return number;
    throw new BadRequestException(`${data} is a whole number from ${this.min} to ${this.max}.`);
  }
}
