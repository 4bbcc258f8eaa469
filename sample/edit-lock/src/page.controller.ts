import { Controller, Get, Header } from '@nestjs/common';

/** The page. Names and texts of other people are only ever shown as text. */
const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>One document, one editor</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em; }
  textarea { width: 100%; box-sizing: border-box; font: inherit; }
</style>
<h1>One document, one editor</h1>
<p><label>Your name <input id="name" maxlength="40"></label> <button id="edit">Edit</button></p>
<p id="state" role="status"></p>
<p id="said" role="alert"></p>
<p><label>The document<br><textarea id="text" rows="8" readonly></textarea></label></p>
<p><button id="save" disabled>Save</button> <button id="close" disabled>Close</button></p>
<script type="module">
  const HEARTBEAT_MS = 20_000;
  const POLL_MS = 1_000;
  const byId = (id) => document.getElementById(id);
  const MEANING = {
    400: 'This page has no valid ticket. Reload it.',
    409: 'You no longer edit this document, so your text was not saved. Copy it, and edit again.',
    423: 'Another person edits this document.',
  };
  /** A secret: it stays in the memory of this page, and goes into bodies only. */
  let ticket;

  function show(next) {
    ticket = next;
    for (const id of ['save', 'close']) byId(id).disabled = ticket === undefined;
    byId('edit').disabled = ticket !== undefined;
    byId('text').readOnly = ticket === undefined;
    if (ticket !== undefined) byId('state').textContent = 'You edit this document.';
  }

  async function call(action, body = {}) {
    const sent = ticket;
    const response = await fetch('documents/1/' + action, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ticket: sent, ...body }),
    });
    byId('said').textContent = response.ok ? '' : (MEANING[response.status] ?? 'Try again in a moment.');
    if (response.ok) return response.status === 204 ? {} : response.json();
    // The ticket is over. The text stays in the page.
    if (response.status === 409) show(undefined);
    throw new Error(action + ': ' + response.status);
  }

  /** Sends nothing else with a ticket meanwhile, because a save ends it. */
  let last = Promise.resolve();
  const inTurn = (task) => (last = last.then(task).catch(() => undefined));

  async function read() {
    const response = await fetch('documents/1');
    const { text, editor } = await response.json();
    if (ticket !== undefined) return;
    byId('state').textContent = editor === null ? 'Nobody edits this document.' : editor + ' edits this document.';
    if (byId('said').textContent === '') byId('text').value = text;
  }

  byId('edit').onclick = () => inTurn(async () => show((await call('edit', { name: byId('name').value })).ticket));
  byId('save').onclick = () => inTurn(async () => show((await call('save', { text: byId('text').value })).ticket));
  byId('close').onclick = () => inTurn(async () => show(void (await call('close'))));
  setInterval(() => ticket !== undefined && inTurn(() => call('heartbeat')), HEARTBEAT_MS);
  setInterval(() => inTurn(read), POLL_MS);
  inTurn(read);
</script>
</html>
`;

@Controller()
export class PageController {
  @Get()
  @Header('Content-Type', 'text/html; charset=utf-8')
  @Header('Cache-Control', 'no-store')
  page(): string {
    return PAGE;
  }
}
