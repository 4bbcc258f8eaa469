import { Module } from '@nestjs/common';
import { DocumentsController } from './documents.controller.js';
import { PageController } from './page.controller.js';

@Module({ controllers: [PageController, DocumentsController] })
export class EditLockModule {}
