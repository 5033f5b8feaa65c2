// Tests the table view in the MCP Inspector, in headless Chromium: `node inspector.mjs ATLATL OUT_DIR`.
// See browser.mjs for the environment. Screenshots go to OUT_DIR.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileAndDirectory, launch, modules, record } from './browser.mjs';

const [program, outDirectory] = fileAndDirectory('inspector.mjs', 'ATLATL');

const home = mkdtempSync(path.join(tmpdir(), 'atlatl-inspector-'));
const work = path.join(home, 'work');
mkdirSync(work);
const env = { HOME: home, PATH: process.env.PATH };
const rows = Array.from({ length: 2000 }, (_, n) => ({ n: n + 1, name: `row <i>${n + 1}</i>`, state: n % 3 ? 'open' : 'closed' }));
writeFileSync(path.join(work, 'rows.json'), JSON.stringify(rows));
const stored = execFileSync(program, ['offload', 'rows.json', '--tool', 'list_rows', '--json', '--set', 'proxy.threshold_tokens=100'], { cwd: work, env });
const reference = JSON.parse(stored).lro.ref;
const config = path.join(home, 'inspector.json');
const atlatl = { type: 'stdio', command: program, args: ['tools'], cwd: work, env };
writeFileSync(config, JSON.stringify({ mcpServers: { atlatl } }));

/** A port that is free now. */
const freePort = () => new Promise((resolve) => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const [port, sandbox] = [await freePort(), await freePort()];
const inspector = spawn(path.join(modules, '.bin/mcp-inspector'), ['--web', '--config', config], {
  cwd: work,
  env: { ...env, CLIENT_PORT: `${port}`, MCP_SANDBOX_PORT: `${sandbox}`, MCP_AUTO_OPEN_ENABLED: 'false' },
  stdio: ['ignore', 'pipe', 'ignore'],
  detached: true,
});
const url = await new Promise((resolve) => {
  createInterface({ input: inspector.stdout }).on('line', (line) => {
    const found = /http:\/\/\S+API_TOKEN=\S+/.exec(line);
    if (found) resolve(found[0]);
  });
});

const { browser, close } = await launch({ viewport: { width: 1280, height: 900 } });
let failed = false;
try {
  const page = await browser.newPage();
  const incidents = [];
  record(page, incidents, (message) => /Content Security Policy|Refused to/.test(message.text()));
  await page.goto(url);
  await page.locator('input[role=switch]').first().click({ force: true });
  await page.getByText('Connected', { exact: true }).waitFor();
  await page.getByText('Apps', { exact: true }).click();
  // One app: the tool of the page itself is not for people.
  await page.getByText('MCP Apps (1)').waitFor();
  await page.getByText('Show a stored result').first().click();
  await page.getByLabel(/^ref/).first().fill(reference);
  await page.getByText('Open App', { exact: true }).click();

  const frameWithRows = async () => {
    for (const frame of page.frames()) if (await frame.$('tbody tr').catch(() => null)) return frame;
    return undefined;
  };
  let view;
  for (let tries = 0; tries < 150 && !view; tries += 1) {
    view = await frameWithRows();
    if (!view) await page.waitForTimeout(200);
  }
  assert.ok(view, 'the Inspector shows no rows');
  const until = (body, arg) => view.waitForFunction(body, arg, { polling: 50 });
  const untilText = (id, text) => until(([at, wanted]) => document.getElementById(at).textContent.startsWith(wanted), [id, text]);
  await untilText('facts', '2,000 rows, 3 columns');
  console.log('ok the rows of the tool result');
  await view.click('[data-page=next]');
  await untilText('range', '51–100 of 2,000');
  console.log('ok a page through the Inspector');
  await view.click('.sort[data-column="0"]');
  await until(() => document.querySelector('.sort[data-column="0"]').closest('th').ariaSort === 'ascending');
  await view.click('.sort[data-column="0"]');
  await until(() => document.querySelector('tbody tr').textContent.includes('2000'));
  console.log('ok a sort');
  await view.fill('#search', '<i>19');
  await page.keyboard.press('Enter');
  const matched = rows.filter(({ name }) => name.includes('<i>19')).length;
  await untilText('facts', `${matched} of 2,000 rows`);
  assert.equal(await view.$('tbody i'), null, 'markup became an element');
  console.log('ok a search for markup, which stays text');
  await page.screenshot({ path: path.join(outDirectory, 'inspector-1280.png') });
  assert.deepEqual(incidents, []);
  console.log('ok no errors, dialogs or violations');
} catch (error) {
  failed = true;
  console.log(`not ok ${error.message.split('\n').slice(0, 6).join(' | ')}`);
} finally {
  await close();
  process.kill(-inspector.pid, 'SIGTERM');
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(failed ? 1 : 0);
