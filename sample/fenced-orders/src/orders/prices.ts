import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { settings } from '../settings.js';

const USUAL_PRICE = 10;
const SUPPLIER_MS = 25;

/** A slow external service, called between the read and the write. */
@Injectable()
export class Prices {
  async of(article: string): Promise<number> {
    if (settings.pricesUrl === undefined) return pause(SUPPLIER_MS, USUAL_PRICE);
    const response = await fetch(new URL(encodeURIComponent(article), settings.pricesUrl));
    return (await response.json()) as number;
  }
}
