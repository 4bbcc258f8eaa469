import { Module } from '@nestjs/common';
import type { TransactionalAdapter } from '@nestjs-cls/transactional';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { type LockScopeAdapterOptions, withLockScope } from 'nestjs-redis-lock/transactional';
import { type AppSetUp, startApp, type TestApp } from './app.js';

/** The transaction that code runs in. */
export interface Tx {
  readonly id: number;
}

export interface TxOptions {
  readonly level?: string;
}

/** The connection of the application: it writes what happens to transactions into the log of the locks. */
export class Journal {
  /** Called right before each commit. A rejection makes the commit fail. */
  onCommit: (id: number) => unknown = () => undefined;
  readonly options: TxOptions[] = [];
  private transactions = 0;
  private app: TestApp | undefined;

  attach(app: TestApp): void {
    this.app = app;
  }

  begin(kind: string): Tx {
    this.transactions += 1;
    this.write(`${kind} ${this.transactions}`);
    return { id: this.transactions };
  }

  write(line: string): void {
    this.app?.log.add(line);
  }
}

type Work = () => Promise<unknown>;
type SetTx = (tx?: Tx) => void;

/** An adapter as a library would write it: a class with private fields, whose methods use `this`. */
export class RecordingAdapter implements TransactionalAdapter<Journal, Tx, TxOptions> {
  readonly connectionToken = Journal;
  readonly defaultTxOptions = { level: 'default' };
  readonly extraProviderTokens = ['EXTRA'];
  extra: unknown;
  #hooks: string[] = [];

  get hooks(): readonly string[] {
    return this.#hooks;
  }

  onModuleInit(): void {
    this.#hooks.push('init');
  }

  onApplicationShutdown(signal?: string): void {
    this.#hooks.push(`shutdown ${signal}`);
  }

  optionsFactory(journal: Journal, [extra]: unknown[]) {
    this.extra = extra;
    this.#hooks.push('options');
    return {
      fallback: { id: 0 },
      async transact(begin: string, end: string, work: Work, setTx: SetTx): Promise<unknown> {
        const tx = journal.begin(begin);
        try {
          setTx(tx);
          const result = await work();
          await journal.onCommit(tx.id);
          journal.write(`${end} ${tx.id}`);
          return result;
        } catch (error) {
          journal.write(`rollback ${tx.id}`);
          throw error;
        }
      },
      wrapWithTransaction(options: TxOptions, work: Work, setTx: SetTx): Promise<unknown> {
        journal.options.push(options);
        return this.transact('begin', 'commit', work, setTx);
      },
      wrapWithNestedTransaction(_options: TxOptions, work: Work, setTx: SetTx, outer: Tx): Promise<unknown> {
        return this.transact(`savepoint of ${outer.id}:`, 'release savepoint', work, setTx);
      },
      getFallbackInstance(): Tx {
        return this.fallback;
      },
    };
  }
}

export interface RecordedSetUp extends AppSetUp {
  readonly options?: LockScopeAdapterOptions;
  /** Uses the adapter without `withLockScope`. */
  readonly unscoped?: boolean;
}

/** Starts an application with recorded transactions. */
export async function startRecordedApp({
  options,
  unscoped = false,
  ...setUp
}: RecordedSetUp): Promise<{ app: TestApp; journal: Journal; adapter: RecordingAdapter }> {
  const journal = new Journal();
  @Module({
    providers: [
      { provide: Journal, useValue: journal },
      { provide: 'EXTRA', useValue: 'extra' },
    ],
    exports: [Journal, 'EXTRA'],
  })
  class JournalModule {}
  const adapter = new RecordingAdapter();
  const used = unscoped ? adapter : withLockScope(adapter, options);
  const plugin = new ClsPluginTransactional({ imports: [JournalModule], adapter: used, enableTransactionProxy: true });
  const imports = [ClsModule.forRoot({ plugins: [plugin] }), ...(setUp.imports ?? [])];
  const app = await startApp({ ...setUp, imports });
  journal.attach(app);
  return { app, journal, adapter };
}
