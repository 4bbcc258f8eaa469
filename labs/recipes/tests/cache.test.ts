import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import type { INestApplicationContext } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ReportModule, ReportService } from '../examples/cached-report.js';
import { times } from './support.js';

const computed: string[] = [];
let failures = 0;

class CountedReports extends ReportService {
  protected override async compute(day: string): Promise<string> {
    computed.push(day);
    if (failures > 0) {
      failures -= 1;
      throw new Error('the source is broken');
    }
    return super.compute(day);
  }
}

let apps: INestApplicationContext[] = [];
const reports = (): ReportService[] => apps.map((app) => app.get(ReportService));

before(async () => {
  apps = await Promise.all(
    [1, 2].map(async () => {
      const builder = Test.createTestingModule({ imports: [ReportModule] });
      const module = await builder.overrideProvider(ReportService).useClass(CountedReports).compile();
      return module.init();
    }),
  );
});
after(() => Promise.all(apps.map((app) => app.close())));
beforeEach(() => void computed.splice(0));

it('computes a value once in two instances, and all callers get it', async () => {
  const all = await Promise.all(reports().map((service) => times(10, () => service.report('monday'))));
  assert.deepEqual(new Set(all.flat()), new Set(['the report of monday']));
  assert.deepEqual(computed, ['monday']);
});

it('computes again if the computation has failed, and only its caller gets the error', async () => {
  failures = 1;
  const calls = reports().flatMap((service) => Array.from({ length: 5 }, () => service.report('friday')));
  const outcomes = await Promise.allSettled(calls);
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1);
  assert.deepEqual(computed, ['friday', 'friday']);
});
