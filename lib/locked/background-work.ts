import { functionOf } from './locked-method.js';

// Metadata of @nestjs/schedule and @nestjs/event-emitter, which an application need not install.
const BACKGROUND = ['SCHEDULER_TYPE', 'EVENT_LISTENER_METADATA'];

/** Returns whether a timer or an event calls a method, so that no client waits for it. */
export function isBackgroundWork(prototype: object, propertyKey: string | symbol): boolean {
  const method = functionOf(prototype, propertyKey);
  return method !== undefined && BACKGROUND.some((key) => Reflect.hasMetadata(key, method));
}
