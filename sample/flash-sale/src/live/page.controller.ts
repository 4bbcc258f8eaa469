import { readFileSync } from 'node:fs';
import { Controller, Get, Header, UseInterceptors } from '@nestjs/common';
import { PageHeaders } from './page-headers.interceptor.js';

const read = (name: string): string => readFileSync(new URL(`./page/${name}`, import.meta.url), 'utf8');

/** The page of the sale, as three files. */
@Controller()
@UseInterceptors(PageHeaders)
export class PageController {
  private readonly files = { page: read('index.html'), style: read('page.css'), script: read('page.js') };

  @Get()
  @Header('Content-Type', 'text/html; charset=utf-8')
  page(): string {
    return this.files.page;
  }

  @Get('page.css')
  @Header('Content-Type', 'text/css; charset=utf-8')
  style(): string {
    return this.files.style;
  }

  @Get('page.js')
  @Header('Content-Type', 'text/javascript; charset=utf-8')
  script(): string {
    return this.files.script;
  }
}
