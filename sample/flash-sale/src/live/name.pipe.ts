import { BadRequestException, type PipeTransform } from '@nestjs/common';

const LONGEST = 40;

/** Accepts a text of 1 to 40 characters, whatever they are: the page shows names as text. Everything else is a 400. */
export class NamePipe implements PipeTransform<unknown, string> {
  transform(value: unknown): string {
    const name = typeof value === 'string' ? value.trim() : '';
    if (name !== '' && name.length <= LONGEST) return name;
    throw new BadRequestException(`name is a text of 1 to ${LONGEST} characters.`);
  }
}
