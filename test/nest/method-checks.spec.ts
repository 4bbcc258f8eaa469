import {
  type ArgumentMetadata,
  type CanActivate,
  Controller,
  Get,
  Injectable,
  Param,
  type PipeTransform,
  SetMetadata,
} from '@nestjs/common';
import { EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Query, Resolver } from '@nestjs/graphql';
import { MessagePattern } from '@nestjs/microservices';
import { Cron } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, LockConfigError, memory, RedisLockModule } from 'nestjs-redis-lock';
import { Observable, of } from 'rxjs';
import { type AppSetUp, closeApps, startApp } from './support/app.js';
import { Foreign } from './support/wrappers.js';

class Goods {
  readonly id = 7;
}

class Thenable<T> implements PromiseLike<T> {
  constructor(private readonly promise: Promise<T>) {}

  // oxlint-disable-next-line no-thenable -- as the query builders of databases
  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.promise.then(onFulfilled, onRejected);
  }
}

interface Order {
  readonly id: number;
}

@Injectable()
class Synchronous {
  @Locked('goods:<id>')
  isAllowed(id: number): boolean {
    return id > 0;
  }

  @Locked('goods:<id>')
  nameOf(id: number): string {
    return `goods ${id}`;
  }

  @Locked('goods:<id>')
  list(id: number): number[] {
    return [id];
  }

  @Foreign()
  @Locked('goods:<id>')
  find(id: number): Goods {
    return [new Goods()][id];
  }
}

@Injectable()
class Asynchronous {
  @Locked('goods:<id>')
  async promise(id: number): Promise<boolean> {
    return id > 0;
  }

  @Locked('goods:<id>')
  thenable(id: number): Thenable<number> {
    return new Thenable(Promise.resolve(id));
  }

  @Locked('goods:<id>')
  observable(id: number): Observable<number> {
    return of(id);
  }

  @Locked('goods:<id>')
  union(id: number): Promise<number> | number {
    return id;
  }

  @Locked('goods:<id>')
  inferred(id: number) {
    return id;
  }

  @Locked('goods:<id>')
  interface(id: number): Order {
    return { id };
  }

  @Locked('goods:<id>')
  unknown(id: number): unknown {
    return id;
  }

  @Locked('goods')
  void(): void {}
}

@Controller()
class Handlers {
  @Get('below/:id')
  @Locked('goods:<id>')
  below(@Param('id') id: string): string {
    return id;
  }

  @Locked('goods:<id>')
  @Get('above/:id')
  above(@Param('id') id: string): string {
    return id;
  }

  @Get('foreign/:id')
  @Foreign()
  @Locked('goods:<id>')
  foreign(@Param('id') id: string): string {
    return id;
  }

  @MessagePattern('goods')
  @Locked('goods')
  message(): number {
    return 1;
  }
}

@Injectable()
class Jobs {
  @Cron('0 0 1 1 *')
  @Locked('report')
  report(): boolean {
    return true;
  }

  @Locked('goods')
  @OnEvent('sold')
  onSold(): number {
    return 1;
  }

  @SetMetadata('queue', 'goods')
  @Locked('goods')
  ofAnotherLibrary(): boolean {
    return true;
  }
}

@Resolver()
class Resolvers {
  @Query(() => String)
  @Locked('goods')
  goods(): string {
    return 'goods';
  }
}

@Injectable()
class Guard implements CanActivate {
  @Locked('goods')
  canActivate(): boolean {
    return true;
  }
}

@Injectable()
class Pipe implements PipeTransform {
  @Locked('goods')
  transform(value: string, _metadata: ArgumentMetadata): string {
    return value;
  }
}

const start = (setUp: Omit<AppSetUp, 'lockModules'>) =>
  startApp({ lockModules: () => [RedisLockModule.forRoot({ store: memory() })], ...setUp });

afterEach(closeApps);

describe('a @Locked method that declares no promise', () => {
  it('fails the start, which names all of them and what to declare', async () => {
    const error: unknown = await start({ providers: [Synchronous] }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockConfigError);
    const lines = (error as Error).message.split('\n');
    expect(lines).toEqual([
      expect.stringMatching(/^Synchronous\.isAllowed is @Locked and declares that it returns boolean, but .*promise/),
      expect.stringMatching(/^Synchronous\.nameOf .* returns string/),
      expect.stringMatching(/^Synchronous\.list .* returns array/),
      expect.stringMatching(/^Synchronous\.find .* returns Goods/),
    ]);
    expect(lines[0]).toMatch(/Declare it async, with Promise<…> as its return type/);
  });

  it('fails the start even if it is inherited, or a factory makes the instance', async () => {
    class Inheriting extends Synchronous {}
    await expect(start({ providers: [Inheriting] })).rejects.toThrow('Synchronous.isAllowed');
    const byFactory = { provide: 'stock', useFactory: () => new Synchronous() };
    await expect(start({ providers: [byFactory] })).rejects.toThrow('Synchronous.isAllowed');
  });

  it('is not an error if the emitted type says nothing or has then() or subscribe()', async () => {
    const app = await start({ providers: [Asynchronous] });
    expect(await app.nest.get(Asynchronous).thenable(7)).toBe(7);
  });

  it('is not an error for handlers, jobs, listeners, guards and pipes, which Nest awaits', async () => {
    const app = await start({
      imports: [EventEmitterModule.forRoot()],
      controllers: [Handlers],
      providers: [Jobs, Resolvers, Guard, Pipe],
    });
    for (const path of ['below', 'above', 'foreign']) expect((await app.call(`/${path}/7`)).text).toBe('7');
  });
});

describe('a handler that overrides a @Locked handler', () => {
  it('is not reported if it has a @Locked of its own', async () => {
    @Controller()
    class OverridingHandlers extends Handlers {
      @Get('below/:id')
      @Locked('goods:<id>')
      override below(@Param('id') id: string): string {
        return `${id} of the override`;
      }
    }
    const app = await start({ controllers: [OverridingHandlers] });
    expect((await app.call('/below/7')).text).toBe('7 of the override');
    expect(app.logged).toEqual([]);
  });
});
