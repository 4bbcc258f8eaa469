import type { RedisClient } from './redis-client.js';
import { RedisScript } from './redis-script.js';
import { scripts } from './scripts.js';

const applicationScript = new RedisScript(scripts.application, String);

/** For how long Redis remembers which application has started, in milliseconds. */
const REMEMBERED_MS = 7 * 24 * 3600 * 1000;

/** What a notice needs. */
export interface ApplicationNoticeOptions {
  readonly client: RedisClient;
  /** The prefix of the module. */
  readonly prefix: string;
  /** Returns the name of this application. Undefined if it is not known: then nothing is looked at. */
  name(this: void): string | undefined;
  /** Called once with the name of another application that uses the same keys. */
  onOther(this: void, other: string, own: string): void;
}

/**
 * Registers this application in Redis when its client is first connected, and finds out whether another one uses the
 * same keys. Sends one script call. Does nothing if Redis refuses it.
 */
export class ApplicationNotice {
  constructor(private readonly options: ApplicationNoticeOptions) {}

  private readonly onReady = (): void => {
    this.stop();
    void this.register();
  };

  /** Waits for the connection without making it. */
  start(): void {
    const { client } = this.options;
    if (client.status === 'ready') this.onReady();
    else client.on('ready', this.onReady);
  }

  stop(): void {
    this.options.client.off('ready', this.onReady);
  }

  private async register(): Promise<void> {
    const { client, prefix, name, onOther } = this.options;
    const own = name();
    if (own === undefined) return;
    const connection = { client, sentScripts: new Set<string>(), evalOnly: true };
    try {
      const args = [own, String(REMEMBERED_MS)];
      const other = await applicationScript.run(connection, [`{${prefix}}|application`], args);
      if (other !== '' && other !== own) onOther(other, own);
    } catch {
      // A user of Redis without the permission, or a connection that has ended: locks do not depend on it.
    }
  }
}
