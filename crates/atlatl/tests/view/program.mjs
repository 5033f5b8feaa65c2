// Tests the pages with the program behind them, in headless Chromium: `node program.mjs ATLATL OUT_DIR`.
// The table view of `atlatl tools` runs in ext-apps' own bridge, and the pages of `atlatl results open`
// in the browser. Both show 100,000 rows. Prints the times of each action, and fails beyond MAX_MS
// (default: 1000, since the program may be built without optimisation beside other tests).
// See browser.mjs for the environment. Screenshots go to OUT_DIR.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cache, fileAndDirectory, launch, modules, record } from './browser.mjs';
import { importMap } from './modules.mjs';

const MAX_MS = Number(process.env.MAX_MS ?? 400);
const ROWS = 100_000;
const URI = 'ui://atlatl/table.html';
const MEDIA_TYPE = 'text/html;profile=mcp-app';
const REPEATS = 5;

const [program, outDirectory] = fileAndDirectory('program.mjs', 'ATLATL');
const here = path.dirname(fileURLToPath(import.meta.url));

// A stored result, in a home directory of its own.

const home = mkdtempSync(path.join(tmpdir(), 'atlatl-program-'));
const work = path.join(home, 'work');
mkdirSync(work);
const options = { cwd: work, env: { HOME: home, PATH: process.env.PATH } };
const AUTHORS = ['adalove', 'brkvist', 'c-morales', 'yuki', 'øystein'];
const row = (n) => ({
  number: n,
  title: n % 1000 === 7 ? `Login fails for <b>user ${n}</b>` : `Build ${(n * 7919) % ROWS} is slow`,
  state: n % 3 === 0 ? 'closed' : 'open',
  user: { login: AUTHORS[n % AUTHORS.length] },
  comments: (n * 31) % 97,
  created_at: new Date(Date.UTC(2026, 0, 1) + n * 60_000).toISOString(),
  labels: n % 5 === 0 ? [{ name: 'bug' }, { name: 'ci' }] : [],
});
const rows = Array.from({ length: ROWS }, (_, at) => row(at + 1));
writeFileSync(path.join(work, 'rows.json'), JSON.stringify(rows));
const descriptor = JSON.parse(execFileSync(program, ['offload', 'rows.json', '--tool', 'list_issues', '--json'], options));
const reference = descriptor.lro.ref;

// `atlatl tools` as a client that shows pages.

const tools = spawn(program, ['tools'], { ...options, stdio: ['pipe', 'pipe', 'inherit'] });
const answers = new Map();
let lastId = 0;
createInterface({ input: tools.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  answers.get(message.id)?.(message);
  answers.delete(message.id);
});
const request = (method, params) => new Promise((resolve) => {
  lastId += 1;
  answers.set(lastId, resolve);
  tools.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: lastId, method, params })}\n`);
});
await request('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [MEDIA_TYPE] } } },
  clientInfo: { name: 'test-host', version: '1' },
});
tools.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
const html = (await request('resources/read', { uri: URI })).result.contents[0].text;

// The host page. Its calls go to the program.

const CSP = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'none'; img-src 'none'; base-uri 'none'; form-action 'none'";
const hostHtml = readFileSync(path.join(here, 'host.html'), 'utf8')
  .replace('@@IMPORT_MAP@@', JSON.stringify(importMap(['@modelcontextprotocol/ext-apps/app-bridge'], cache)));
const calls = `export const argumentFault = () => null;
export const defineTables = () => {};
export async function lroPage(args) {
  const { result } = await (await fetch('/call', { method: 'POST', body: JSON.stringify(args) })).json();
  if (result.isError) throw new Error(result.content[0].text);
  return result.structuredContent;
}`;
const server = createServer(async (incoming, response) => {
  const { pathname } = new URL(incoming.url, 'http://host');
  const send = (type, body, headers = {}) => response.writeHead(200, { 'content-type': type, ...headers }).end(body);
  if (pathname === '/call') {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const answer = await request('tools/call', { name: 'lro_page', arguments: JSON.parse(Buffer.concat(chunks)) });
    return send('application/json', JSON.stringify(answer));
  }
  if (pathname === '/view.html') return send('text/html; charset=utf-8', html, { 'content-security-policy': CSP });
  if (pathname === '/') return send('text/html; charset=utf-8', hostHtml);
  if (pathname === '/host.mjs') return send('text/javascript', readFileSync(path.join(here, 'host.mjs')));
  if (pathname === '/results.mjs') return send('text/javascript', calls);
  if (pathname.startsWith('/npm/') && !pathname.includes('..')) return send('text/javascript', readFileSync(path.join(modules, pathname.slice(5))));
  return response.writeHead(pathname === '/favicon.ico' ? 204 : 404).end();
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

// The browser.

const { browser, close } = await launch();
const incidents = [];
async function openPage(url) {
  const page = await browser.newPage();
  record(page, incidents, (message) => message.type() === 'error');
  await page.goto(url);
  return page;
}

/** The milliseconds from an action in the page to the frame in which an element has a text. */
const timed = (frame, action, selector, wanted) => frame.evaluate(async ([kind, target, watched, text]) => {
  const element = document.querySelector(target);
  const isThere = () => document.querySelector(watched).textContent.startsWith(text);
  const start = performance.now();
  if (kind === 'click') {
    element.click();
  } else {
    element.value = kind;
    element.dispatchEvent(new Event('input', { bubbles: true }));
    element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
  }
  await new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`${watched} is ${document.querySelector(watched).textContent}, expected ${text}`)), 20_000);
    const look = () => isThere() ? (clearTimeout(limit), resolve()) : requestAnimationFrame(look);
    look();
  });
  return performance.now() - start;
}, [...action, selector, wanted]);

let failures = 0;
async function check(name, body) {
  try {
    const times = await body();
    const slowest = times?.length ? Math.max(...times) : 0;
    console.log(`ok ${name}${times?.length ? `: ${times.map((time) => time.toFixed(0)).join(', ')} ms` : ''}`);
    assert.ok(slowest <= MAX_MS, `${name}: ${slowest.toFixed(0)} ms, bound ${MAX_MS}`);
  } catch (error) {
    failures += 1;
    console.log(`not ok ${name}: ${error.message.split('\n').slice(0, 4).join(' | ')}`);
  }
}

/** Pages, sorts and searches a table of all rows. */
async function checkTable(name, frame) {
  await frame.waitForSelector('tbody tr');
  const first = () => frame.$eval('tbody tr td', (cell) => cell.textContent);
  const facts = '100,000 rows';
  await check(`${name}: pages`, async () => {
    const times = [];
    for (let page = 1; page <= REPEATS; page += 1) times.push(await timed(frame, ['click', '[data-page=next]'], '#range', `${page * 50 + 1}–`));
    times.push(await timed(frame, ['click', '[data-page=last]'], '#range', '99,951–100,000'));
    times.push(await timed(frame, ['click', '[data-page=first]'], '#range', '1–50'));
    return times;
  });
  await check(`${name}: sorts by each column`, async () => {
    const times = [];
    for (const column of [1, 4, 5]) {
      const sort = (direction) => frame.evaluate(async ([index, wanted]) => {
        const start = performance.now();
        document.querySelector(`.sort[data-column="${index}"]`).click();
        const state = () => document.querySelector(`.sort[data-column="${index}"]`).closest('th').ariaSort;
        while (state() !== wanted || document.querySelector('table[aria-busy=true]')) await new Promise(requestAnimationFrame);
        return performance.now() - start;
      }, [column, direction]);
      times.push(await sort('ascending'), await sort('descending'), await sort('none'));
    }
    return times;
  });
  await check(`${name}: searches`, async () => {
    const times = [];
    for (const text of ['login fails', 'yuki', 'no such text', 'build \\d+7 ']) {
      const matched = rows.filter((each) => new RegExp(text, 'i').test(JSON.stringify(each))).length;
      const wanted = `${matched.toLocaleString('en')} of ${facts}`;
      times.push(await timed(frame, [text, '#search'], '#facts', wanted));
    }
    times.push(await timed(frame, ['', '#search'], '#facts', facts));
    return times;
  });
  await check(`${name}: markup in a cell is text`, async () => {
    await timed(frame, ['Login fails for', '#search'], '#facts', '100 of');
    assert.match(await first(), /\d/);
    assert.equal(await frame.$('tbody b'), null);
    assert.match(await frame.$eval('tbody', (body) => body.textContent), /<b>user \d+<\/b>/);
    assert.deepEqual(await frame.evaluate(() => window.violations), []);
  });
}

const host = await openPage(`http://127.0.0.1:${server.address().port}/?ref=${encodeURIComponent(reference)}`);
await host.waitForFunction(() => window.host?.initialized);
const view = host.frames().find((frame) => frame.url().endsWith('/view.html'));
await checkTable('client', view);
await host.screenshot({ path: path.join(outDirectory, 'program-client.png') });

const opened = spawn(program, ['results', 'open', '--no-browser'], { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
const [url] = await new Promise((resolve) => createInterface({ input: opened.stdout }).once('line', (line) => resolve([line])));
const list = await openPage(url);
await check('browser: the list links to the table', async () => {
  assert.ok(!list.url().includes('token'), list.url());
  await list.waitForSelector('tbody tr');
  assert.match(await list.$eval('tbody', (body) => body.innerText), /list_issues/);
  await list.screenshot({ path: path.join(outDirectory, 'program-list.png') });
  await list.click('tbody a');
  await list.waitForURL(/\/table#/);
});
await checkTable('browser', list.mainFrame());
await list.screenshot({ path: path.join(outDirectory, 'program-browser.png') });
await check('browser: the token works once', async () => {
  const other = await browser.newPage();
  assert.equal((await other.goto(url)).status(), 200, 'this browser has a session');
  await browser.clearCookies();
  assert.equal((await other.goto(url)).status(), 401);
});
// The browser reports the refused token.
const others = incidents.filter((each) => !each.includes('status of 401'));
await check('no errors or dialogs', () => assert.equal(others.join('\n'), ''));

opened.kill('SIGTERM');
tools.stdin.end();
server.close();
await close();
rmSync(home, { recursive: true, force: true });
console.log(failures ? `${failures} failed` : 'all passed');
process.exit(failures ? 1 : 0);
