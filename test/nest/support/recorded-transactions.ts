import { Module } from '@nestjs/common';
import type { TransactionalAdapter } from '@nestjs-cls/transactional';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { type LockScopeAdapterOptions, withLockScope } from 'nestjs-redis-lock/transactional';
import { type AppSetUp, startApp, type TestApp } from './app.js';

/** The transaction that code runs in. */
interface Tx {
  readonly id: number;
}

/** Writes when transactions begin and end into the log of the locks. */
export class Journal {
  /** Called before each commit, which fails if it rejects. */
  onCommit: (id: number) => unknown = () => undefined;
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

export class RecordingAdapter implements TransactionalAdapter<Journal, Tx, object> {
  readonly connectionToken = Journal;

  optionsFactory(journal: Journal) {
    async function transact(begin: string, end: string, work: Work, setTx: SetTx): Promise<unknown> {
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
    }
    return {
      wrapWithTransaction: (_options: object, work: Work, setTx: SetTx) => transact('begin', 'commit', work, setTx),
      wrapWithNestedTransaction: (_options: object, work: Work, setTx: SetTx, outer: Tx) =>
        transact(`savepoint of ${outer.id}:`, 'release savepoint', work, setTx),
      getFallbackInstance: (): Tx => ({ id: 0 }),
    };
  }
}

export interface RecordedSetUp extends AppSetUp {
  readonly options?: LockScopeAdapterOptions;
  /** Uses the adapter without `withLockScope`. */
  readonly unscoped?: boolean;
}

/** Starts an application with recorded transactions. */
export async function startRecordedApp({ options, unscoped = false, ...setUp }: RecordedSetUp) {
  const journal = new Journal();
  @Module({ providers: [{ provide: Journal, useValue: journal }], exports: [Journal] })
  class JournalModule {}
  const plain = new RecordingAdapter();
  const adapter = unscoped ? plain : withLockScope(plain, options);
  const plugins = [new ClsPluginTransactional({ imports: [JournalModule], adapter })];
  const app = await startApp({ ...setUp, imports: [ClsModule.forRoot({ plugins }), ...(setUp.imports ?? [])] });
  journal.attach(app);
  return { app, journal };
}
