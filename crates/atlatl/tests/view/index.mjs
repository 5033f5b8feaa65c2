// Tests the list of stored results in headless Chromium: `node index.mjs PAGE_HTML OUT_DIR`.
// See browser.mjs for the environment. Screenshots go to OUT_DIR.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { NARROW, WIDE, fileAndDirectory, launch, record } from './browser.mjs';

const MAX_PAGE_BYTES = 20_000;
const CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const ENDED = 'The session has ended. Run atlatl results open again.';
const EMPTY = 'No stored results in this directory. atlatl results open --all shows those of all your directories.';

const [pageFile, outDirectory] = fileAndDirectory('index.mjs', 'PAGE_HTML');
const html = readFileSync(pageFile);

// Results.

const TOOLS = [
  ['github', 'list_issues', '{"owner":"atlatl","repo":"atlatl","state":"open","labels":["bug","performance"],"per_page":100}'],
  ['github', 'search_code', '{"query":"fn offload language:rust repo:atlatl/atlatl path:crates/**","sort":"indexed","order":"desc","per_page":100,"page":1}'],
  ['postgres', 'query', '{"sql":"SELECT id, status, total_cents, currency, created_at FROM orders WHERE status = \'open\' ORDER BY created_at DESC LIMIT 5000"}'],
  ['filesystem', 'read_text_file', '{"path":"/srv/app/logs/2026-11-18.log"}'],
  ['sentry', 'list_events', '{"project":"checkout","environment":"production","since":"24h"}'],
  ['browser', 'take_snapshot', null],
  ['', 'fetch', '{"url":"https://example.com/openapi.json"}'],
];
const CONTENTS = [['439', 439], ['1,500', 1500], ['12,840', 12840], ['text', null], ['JSON', null], ['1', 1], ['binary', null]];
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const reference = (n) => `lro:01K9ZQ4M7X2VBT8HW5${[...createHash('sha256').update(`${n}`).digest().subarray(0, 8)].map((byte) => DIGITS[byte % 32]).join('')}`;

function result(n, members = {}) {
  const [server, tool, args] = TOOLS[n % TOOLS.length];
  const [content, records] = CONTENTS[(n * 3) % CONTENTS.length];
  const bytes = (n * 48_211 + 900) * (n % 5 === 0 ? 31 : 1);
  const size = bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
  const created_at = new Date(Date.UTC(2026, 10, 18, 12) - n * 300_000).toISOString();
  return { ref: reference(n), server, tool, arguments: args, content, records, bytes, size, created_at, stored: n < 24 ? `${n * 5 + 1} min ago` : `${n - 20} h ago`, expires: n < 24 ? 'in 23 h' : `in ${44 - n} h`, ...members };
}

const HOSTILE = [
  { server: '<img src=x onerror=alert(1)>', tool: '"><script>alert(2)</script>', arguments: '</code></td></table><svg onload=alert(3)><iframe src="javascript:alert(4)">' },
  { server: '\u202egnp.exe', tool: '\u202e\u2066evil\u2069 \u200flist', arguments: '\u202e{"right":"to left"}\u202c and on' },
  { server: 's'.repeat(5_000), tool: 't'.repeat(20_000), arguments: 'a'.repeat(100_000), content: '18,446,744,073,709,551,615', records: null, size: '18446744.0 TB' },
  { server: '', tool: '', arguments: '' },
  { server: '${alert(5)}', tool: '{{constructor.constructor("alert(6)")()}}', arguments: 'line\nbreak\ttab\u0000nul\u0007bell' },
  { server: 'مرحبا', tool: 'שלום עולם', arguments: '{"q":"日本語のテキスト 😀👩‍👩‍👧"}' },
  { ref: 'lro:01"><b onclick=alert(7)>?sql=DROP#x/../%00', server: 'javascript:alert(8)', tool: 'javascript:alert(9)', arguments: '" onmouseover="alert(10)' },
];
const hostile = () => HOSTILE.map((members, i) => result(33 + i, members));
const ordinary = () => Array.from({ length: 33 }, (_, n) => result(n));
const forty = () => [...ordinary(), ...hostile()];

// The server.

const ROWS = ['812 · checkout-api · upstream timeout after 30 s · POST /v1/orders · req_8f2c1b', '815 · checkout-api · retry 2 of 5 after a timeout of the payment gateway, which answers with a body that is longer than a row of this page and therefore wraps to a second line at most widths · req_91aa00', '901 · edge · timeout'];
const matchOf = ({ ref }, matched, total, rows) => ({ ref, matched, total, rows: rows.map((text, i) => ({ n: 12 + i * 1_204, text })) });
const script = { results: forty(), answer: null, status: 200, body: null, isDown: false, delay: 0, requests: [], patterns: [] };

function searchAnswer(results) {
  const matches = [matchOf(results[0], 37, 439, ROWS), matchOf(results[2], 3, 1500, ROWS), matchOf(results[3], 1, 90_122, ['ERROR timeout at worker 7']), matchOf(results[1], 2_210, 12_840, ROWS)];
  return { matches, searched: results.length, results: results.length, failed: 0 };
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://host');
  const headers = { 'content-security-policy': CSP, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
  const send = (status, type, body) => response.writeHead(status, { ...headers, 'content-type': type }).end(body);
  const json = (status, value) => send(status, 'application/json', JSON.stringify(value));
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (pathname === '/') return send(200, 'text/html; charset=utf-8', html);
  if (pathname === '/table' || pathname === '/savings') return send(200, 'text/html', `<!doctype html><title>${pathname}</title>`);
  script.requests.push(`${request.method} ${pathname}`);
  if (script.isDown) return request.socket.destroy();
  if (script.delay) await new Promise((resolve) => setTimeout(resolve, script.delay));
  if (script.status !== 200) return json(script.status, script.body ?? { title: 'Unauthorized', detail: 'the session has ended' });
  if (pathname === '/results' && request.method === 'GET') return json(200, { results: script.results });
  if (pathname === '/search' && request.method === 'POST') {
    assert.equal(request.headers['content-type'], 'application/json');
    script.patterns.push(JSON.parse(Buffer.concat(chunks)).pattern);
    return json(200, script.answer ?? searchAnswer(script.results));
  }
  return response.writeHead(pathname === '/favicon.ico' ? 204 : 404).end();
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

// The browser.

const { browser, close } = await launch({ permissions: ['clipboard-read', 'clipboard-write'] });

/** What no page may do: collected over the whole run. Refused requests are part of some checks. */
const complaints = [];

async function openPage(viewport = WIDE, { clock = false, path: at = '/' } = {}) {
  const page = await browser.newPage();
  await page.setViewportSize(viewport);
  record(page, complaints, (message) => ['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource'));
  if (clock) await page.clock.install();
  await page.goto(origin + at);
  await page.waitForSelector('#list:not([hidden]), #message:not([hidden]), #status:not([hidden])');
  return page;
}

const shownRows = (page) => page.locator('#list tbody tr:not(.group):visible');
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute('href') ?? document.activeElement.id);
const hrefOf = ({ ref }) => `table#${encodeURIComponent(ref)}`;
const text = async (page, selector) => (await page.locator(selector).innerText()).replace(/\s+/g, ' ').trim();
const waitForList = (page) => page.waitForSelector('#list:not([hidden])');
const width = (page) => page.evaluate(() => document.documentElement.scrollWidth);

async function searchFor(page, pattern) {
  await page.fill('#search', pattern);
  await page.press('#search', 'Enter');
  await page.waitForFunction(() => !document.querySelector('#summary').hidden && !/^Searching/.test(document.querySelector('#report').textContent));
}

/** Waits for `count` more requests of the list. */
async function moreRequests(page, count, action) {
  const before = script.requests.length;
  await action();
  for (let i = 0; i < 1_000 && script.requests.length < before + count; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(script.requests.length >= before + count, 'no request');
  await page.waitForTimeout(100);
}

// Checks.

let failures = 0;

async function check(name, run) {
  Object.assign(script, { results: forty(), answer: null, status: 200, body: null, isDown: false, delay: 0, requests: [], patterns: [] });
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`not ok ${name}: ${String(error.message).split('\n').slice(0, 12).join(' ')}`);
  }
  for (const page of browser.pages()) {
    if (page.url() === 'about:blank') continue;
    complaints.push(...await page.evaluate(() => window.violations).catch(() => []));
    await page.close();
  }
}

await check('the page is small and has no other resources', async () => {
  assert.ok(html.length <= MAX_PAGE_BYTES, `${html.length} bytes`);
  assert.doesNotMatch(html.toString(), /innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|https?:\/\//);
});

await check('the list shows every result, newest first', async () => {
  const page = await openPage();
  assert.equal(await shownRows(page).count(), 40);
  assert.match(await text(page, '#facts'), /^40 results · [\d.]+ MB$/);
  const first = await shownRows(page).first().innerText();
  for (const part of ['list_issues', 'github', '"owner":"atlatl"', '439 rows', '27.9 kB', '1 min ago', 'in 23 h']) assert.ok(first.includes(part), `${part} in ${first}`);
  assert.deepEqual(await page.locator('#list').evaluate((list) => [...list.rows].slice(0, 2).map((row) => row.cells.length)), [7, 7]);
  assert.deepEqual(script.requests, ['GET /results']);
});

await check('each row is one link to the table', async () => {
  const page = await openPage();
  const targets = await page.locator('#list tbody a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  assert.deepEqual(targets, script.results.map(hrefOf));
  assert.equal(await page.locator('header a').getAttribute('href'), 'savings');
  const { x, y } = await shownRows(page).nth(2).locator('td').nth(4).boundingBox();
  await page.mouse.click(x + 10, y + 10);
  await page.waitForURL('**/table**');
  assert.equal(page.url(), `${origin}/${hrefOf(script.results[2])}`);
});

await check('typing filters by server, tool, arguments and reference', async () => {
  const page = await openPage();
  for (const [words, matches] of [
    ['POSTGRES', ({ server }) => server === 'postgres'],
    ['search_code', ({ tool }) => tool === 'search_code'],
    ['checkout', ({ arguments: args }) => args?.includes('checkout')],
    [script.results[7].ref.slice(-7).toLowerCase(), ({ ref }) => ref === script.results[7].ref],
    ['github issues', ({ server, tool }) => server === 'github' && tool === 'list_issues'],
    ['😀 \u202e', () => false],
    ['ע😀', () => false],
    ['日本 😀', ({ arguments: args }) => args?.includes('😀')],
    ['.*', () => false],
  ]) {
    await page.fill('#search', words);
    const expected = script.results.filter(matches);
    assert.equal(await shownRows(page).count(), expected.length, words);
    assert.match(await text(page, '#facts'), new RegExp(`^${expected.length} of 40 results`), words);
  }
  assert.match(await text(page, '#message'), /Press Enter to search the contents/);
  await page.fill('#search', 'checkout');
  assert.equal(await page.locator('#list mark').first().textContent(), 'checkout');
  await page.press('#search', 'Escape');
  assert.equal(await shownRows(page).count(), 40);
  assert.equal(await page.inputValue('#search'), '');
  assert.deepEqual(script.requests, ['GET /results']);
});

await check('a match beyond the visible part of a line moves into it', async () => {
  const page = await openPage();
  await page.fill('#search', 'limit 5000');
  const box = await page.locator('#list mark:visible').first().boundingBox();
  const cell = await shownRows(page).first().locator('.arguments').boundingBox();
  assert.ok(box.x >= cell.x && box.x + box.width <= cell.x + cell.width, 'the match is cut');
});

await check('Enter searches the contents and shows counts and rows', async () => {
  const page = await openPage();
  await searchFor(page, 'timeout');
  assert.deepEqual(script.patterns, ['timeout']);
  assert.equal(await page.locator('#matches li').count(), 4);
  assert.equal(await text(page, '#report'), 'timeout: 2,251 matching rows in 4 results.');
  assert.match(await text(page, '#facts'), /^40 results/);
  const first = await page.locator('#matches li').first().innerText();
  for (const part of ['list_issues', 'github', '37 of 439 rows', '1,216', 'upstream timeout', '34 more rows']) assert.ok(first.includes(part), `${part} in ${first}`);
  const targets = await page.locator('#matches li').first().locator('a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  assert.deepEqual(new Set(targets), new Set([hrefOf(script.results[0])]));
  assert.equal(targets.length, 5);
  assert.equal(await page.locator('#matches mark').first().textContent(), 'timeout');
  assert.equal(await page.getAttribute('#report', 'role'), 'status');
  assert.equal(await page.locator('#list').isVisible(), false);
});

await check('the button searches the contents too', async () => {
  const page = await openPage();
  assert.equal(await page.locator('#contents').isDisabled(), true);
  await page.fill('#search', 'a|b(');
  await page.click('#contents');
  await page.waitForSelector('#matches li');
  assert.deepEqual(script.patterns, ['a|b(']);
});

await check('a partial search and failures are said', async () => {
  const page = await openPage();
  script.answer = { ...searchAnswer(script.results), searched: 12, results: 14, failed: 1 };
  await searchFor(page, 'timeout');
  assert.match(await text(page, '#report'), /Searched 12 of 14 results: .* 1 result could not be searched\.$/);
  script.answer = { matches: [], searched: 14, results: 14, failed: 0 };
  await searchFor(page, 'zzz');
  assert.equal(await text(page, '#report'), 'zzz: no matching rows.');
  script.answer = { matches: [], searched: 3, results: 14, failed: 2 };
  await searchFor(page, 'zzz');
  assert.match(await text(page, '#report'), /^zzz: no matching rows\. Searched 3 of 14 results: .* 2 results could not be searched\.$/);
});

await check('Escape, Back and an empty box return to the list', async () => {
  const page = await openPage();
  for (const leave of [() => page.press('#search', 'Escape'), () => page.goBack(), () => page.fill('#search', ''), () => page.click('#back')]) {
    await searchFor(page, 'timeout');
    await leave();
    await waitForList(page);
    assert.equal(await page.locator('#matches').isVisible(), false);
    assert.equal(await shownRows(page).count(), 40);
    assert.equal(await page.inputValue('#search'), '');
  }
  await searchFor(page, 'timeout');
  await page.evaluate(() => ['keydown', 'keydown', 'keydown'].forEach((type) => document.body.dispatchEvent(new KeyboardEvent(type, { key: 'Escape', bubbles: true }))));
  await waitForList(page);
  await page.waitForTimeout(300);
  assert.equal(page.url(), `${origin}/`);
});

await check('Escape ends a search under way', async () => {
  const page = await openPage();
  script.delay = 600;
  await page.fill('#search', 'slow');
  await page.press('#search', 'Enter');
  await page.waitForSelector('#progress:not([hidden])', { state: 'attached' });
  assert.equal(await text(page, '#report'), 'Searching…');
  await page.press('#search', 'Escape');
  await waitForList(page);
  await page.waitForTimeout(900);
  assert.equal(await page.locator('#matches').isVisible(), false);
  assert.equal(await page.locator('#status').isVisible(), false);
});

await check('Back from a table returns to the search and to the filter', async () => {
  const page = await openPage();
  await searchFor(page, 'timeout');
  await page.locator('#matches a').nth(6).click();
  await page.waitForURL('**/table**');
  await page.goBack();
  await page.waitForSelector('#matches li');
  assert.equal(await page.inputValue('#search'), 'timeout');
  await page.press('#search', 'Escape');
  await waitForList(page);
  await page.fill('#search', 'github');
  await shownRows(page).nth(1).locator('a').press('Enter');
  await page.waitForURL('**/table**');
  await page.goBack();
  await waitForList(page);
  assert.equal(await page.inputValue('#search'), 'github');
});

await check('a search error is shown with Retry', async () => {
  const page = await openPage();
  Object.assign(script, { status: 422, body: { error: 'the pattern is <b>empty</b>' } });
  await searchFor(page, 'x');
  assert.match(await text(page, '#failure'), /Error: the pattern is <b>empty<\/b>/);
  script.status = 200;
  await page.click('#retry');
  await page.waitForSelector('#matches li');
  assert.equal(await page.locator('#status').isVisible(), false);
});

await check('401 says that the session has ended', async () => {
  script.status = 401;
  let page = await openPage();
  assert.equal(await text(page, '#failure'), ENDED);
  assert.equal(await page.locator('#retry').isVisible(), false);
  script.status = 200;
  page = await openPage(WIDE, { clock: true });
  script.status = 401;
  await page.clock.fastForward(31_000);
  await page.waitForSelector('#status:not([hidden])');
  assert.equal(await text(page, '#failure'), ENDED);
  const before = script.requests.length;
  await page.clock.fastForward(120_000);
  await page.waitForTimeout(200);
  assert.equal(script.requests.length, before, 'it asks on');
  await searchFor(page, 'x');
  assert.equal(await text(page, '#failure'), ENDED);
});

await check('an ended command is said, and Retry reads the list', async () => {
  script.isDown = true;
  const page = await openPage();
  assert.equal(await text(page, '#failure'), 'The command was ended.');
  await page.click('#retry');
  await page.waitForTimeout(200);
  assert.equal(await text(page, '#failure'), 'The command was ended.');
  script.isDown = false;
  await page.click('#retry');
  await waitForList(page);
  assert.equal(await page.locator('#status').isVisible(), false);
});

await check('hostile texts are inert', async () => {
  const page = await openPage();
  const texts = hostile().flatMap((each) => [matchOf(each, 2, 3, [each.arguments.slice(0, 4_000), each.tool.slice(0, 4_000)])]);
  script.answer = { matches: texts, searched: 40, results: 40, failed: 0 };
  const inspect = () => page.evaluate(() => ({
    elements: document.querySelectorAll('img, iframe, main script, object, embed, svg[onload], [onerror], [onclick], [onmouseover], main b b').length,
    attributes: [...document.querySelectorAll('main *')].flatMap((node) => [...node.attributes]).filter(({ name, value }) => !['href', 'role'].includes(name) && /alert|evil|sql|\u202e|tttt/.test(value)).length,
    targets: [...document.querySelectorAll('main a')].filter((link) => !/^table#lro%3A01[\w%.*'()~!-]+$/.test(link.getAttribute('href')) || link.pathname !== '/table').length,
    direct: [...document.querySelectorAll('main bdi, main code')].filter((node) => getComputedStyle(node).unicodeBidi !== 'isolate').length,
  }));
  const clean = { elements: 0, attributes: 0, targets: 0, direct: 0 };
  for (const viewport of [NARROW, WIDE]) {
    await page.setViewportSize(viewport);
    assert.deepEqual(await inspect(), clean);
    assert.ok(await width(page) <= viewport.width, `the list is ${await width(page)} wide`);
    await searchFor(page, '<script>alert(1)</script>');
    assert.equal(await page.locator('#matches li').count(), HOSTILE.length);
    assert.deepEqual(await inspect(), clean);
    assert.ok(await width(page) <= viewport.width, `the matches are ${await width(page)} wide`);
    await page.screenshot({ path: path.join(outDirectory, `hostile-matches-${viewport.width}.png`), fullPage: true });
    await page.press('#search', 'Escape');
    await waitForList(page);
    await page.selectOption('#servers', { index: 1 });
    assert.deepEqual(await inspect(), clean);
    assert.ok(await width(page) <= viewport.width, `the groups are ${await width(page)} wide`);
    await page.selectOption('#servers', { index: 0 });
  }
  for (const { tool } of hostile()) {
    await page.fill('#search', tool.slice(0, 200));
    assert.ok(await shownRows(page).count() >= 1, tool.slice(0, 40));
  }
  assert.equal(await page.evaluate(() => document.title), 'Stored results');
});

await check('the keyboard moves, opens and searches', async () => {
  const page = await openPage();
  const [first, second, third] = script.results.map(hrefOf);
  await page.keyboard.press('/');
  assert.equal(await focused(page), 'search');
  assert.equal(await page.inputValue('#search'), '');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(page), first);
  await page.keyboard.press('j');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(page), third);
  await page.keyboard.press('k');
  assert.equal(await focused(page), second);
  await page.keyboard.press('Tab');
  await page.keyboard.press('j');
  assert.equal(await focused(page), third);
  for (let i = 0; i < 25; i++) await page.keyboard.press('j');
  const [row, header] = await page.evaluate(() => [document.activeElement.closest('tr').getBoundingClientRect().bottom, innerHeight]);
  assert.ok(row <= header, 'the focused row is outside of the window');
  for (let i = 0; i < 27; i++) await page.keyboard.press('k');
  const isBehind = await page.evaluate(() => document.activeElement.closest('tr').getBoundingClientRect().top < document.querySelector('header').getBoundingClientRect().bottom);
  assert.equal(isBehind, false, 'the focused row is behind the header');
  assert.equal(await focused(page), first);
  await page.keyboard.press('ArrowUp');
  assert.equal(await focused(page), 'search');
  await page.keyboard.type('jk/');
  assert.equal(await page.inputValue('#search'), 'jk/');
  await searchFor(page, 'timeout');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('j');
  assert.equal(await page.evaluate(() => document.activeElement.innerText.includes('upstream timeout')), true);
  await page.keyboard.press('Escape');
  await waitForList(page);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/table**');
  assert.equal(page.url(), `${origin}/${second}`);
});

await check('focus rings are visible', async () => {
  const page = await openPage();
  await page.keyboard.press('j');
  assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement, '::after').outlineStyle), 'solid');
  for (let i = 0; i < 2; i++) await page.keyboard.press('Tab');
  for (const selector of ['#search', '#servers', '#refresh', 'header a', '#list tbody button']) {
    await page.locator(selector).first().focus();
    assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'solid', selector);
  }
});

await check('a reference is copied', async () => {
  const page = await openPage();
  const button = shownRows(page).nth(3).locator('button');
  assert.match(await button.innerText(), new RegExp(`${script.results[3].ref.slice(-6)}`));
  await button.click();
  await page.waitForFunction(() => /Copied/.test(document.querySelectorAll('#list tbody tr')[3].textContent));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), script.results[3].ref);
  assert.equal(page.url(), `${origin}/`);
  await page.waitForFunction(() => !/Copied/.test(document.querySelector('#list').textContent));
});

await check('servers group and filter the list', async () => {
  const page = await openPage();
  const names = [...new Set(script.results.map(({ server: name }) => name))];
  assert.equal(await page.locator('#servers option').count(), names.length + 2);
  await page.selectOption('#servers', { index: 1 });
  assert.equal(await page.locator('#list .group').count(), names.length);
  assert.equal(await shownRows(page).count(), 40);
  await page.selectOption('#servers', { label: 'postgres' });
  assert.equal(await shownRows(page).count(), script.results.filter(({ server: name }) => name === 'postgres').length);
  script.results = script.results.map((each) => ({ ...each, server: 'github' }));
  await moreRequests(page, 1, () => page.click('#refresh'));
  assert.equal(await page.locator('#servers').isVisible(), false);
  assert.equal(await shownRows(page).count(), 40);
});

await check('the automatic refresh keeps the focus and the scroll position', async () => {
  const page = await openPage(WIDE, { clock: true });
  await page.locator('#list tbody a').nth(20).focus();
  const before = await page.evaluate(() => document.activeElement.getBoundingClientRect().top);
  assert.ok(await page.evaluate(() => scrollY) > 0 || before > 0);
  await page.evaluate(() => scrollTo(0, 300));
  const top = await page.evaluate(() => document.activeElement.getBoundingClientRect().top);
  script.results = [result(60, { stored: '0 s ago' }), result(61, { stored: '1 s ago' }), ...script.results.slice(0, 39).map((each) => ({ ...each, stored: 'later' }))];
  await moreRequests(page, 1, () => page.clock.fastForward(30_001));
  await page.waitForFunction(() => document.querySelectorAll('#list tbody tr').length === 41);
  assert.equal(await focused(page), hrefOf(script.results[22]));
  assert.ok(Math.abs(await page.evaluate(() => document.activeElement.getBoundingClientRect().top) - top) <= 1, 'the list has moved');
  assert.match(await shownRows(page).nth(22).innerText(), /later/);
  // The row after an expired one gets its focus.
  script.results = script.results.toSpliced(22, 1);
  await moreRequests(page, 1, () => page.clock.fastForward(30_001));
  assert.equal(await focused(page), hrefOf(script.results[22]));
  await page.focus('#search');
  await page.keyboard.type('git');
  await moreRequests(page, 1, () => page.clock.fastForward(30_001));
  assert.deepEqual([await focused(page), await page.inputValue('#search')], ['search', 'git']);
});

await check('a hidden page is not refreshed until it is visible', async () => {
  const page = await openPage(WIDE, { clock: true });
  const before = script.requests.length;
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true, configurable: true }));
  await page.clock.fastForward(90_000);
  await page.waitForTimeout(200);
  assert.equal(script.requests.length, before);
  await moreRequests(page, 1, () => page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event('visibilitychange'));
  }));
});

await check('the automatic refresh leaves matches alone', async () => {
  const page = await openPage(WIDE, { clock: true });
  await searchFor(page, 'timeout');
  await page.locator('#matches a').nth(4).focus();
  await page.evaluate(() => (window.kept = document.activeElement));
  await moreRequests(page, 1, () => page.clock.fastForward(30_001));
  assert.equal(await page.evaluate(() => window.kept === document.activeElement), true);
});

await check('no results are said', async () => {
  script.results = [];
  const page = await openPage();
  assert.equal(await text(page, '#message'), EMPTY);
  assert.equal(await page.locator('#tools').isVisible(), false);
  script.results = forty();
  await moreRequests(page, 1, () => page.click('#refresh'));
  assert.equal(await shownRows(page).count(), 40);
  script.results = [];
  await moreRequests(page, 1, () => page.click('#refresh'));
  assert.equal(await text(page, '#message'), EMPTY);
});

await check('text has the contrast of WCAG AA', async () => {
  const page = await openPage();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const prepare of [() => page.fill('#search', 'github'), () => searchFor(page, 'timeout'), () => page.press('#search', 'Escape')]) {
      await prepare();
      const low = await page.evaluate(() => {
        const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const rgb = (colors) => {
          context.clearRect(0, 0, 1, 1);
          for (const color of colors) {
            context.fillStyle = color;
            context.fillRect(0, 0, 1, 1);
          }
          return context.getImageData(0, 0, 1, 1).data;
        };
        const light = (data) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * (data[i] / 255 <= 0.04045 ? data[i] / 255 / 12.92 : ((data[i] / 255 + 0.055) / 1.055) ** 2.4), 0);
        return [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.disabled && !node.closest(':disabled') && [...node.childNodes].some(({ nodeType, data }) => nodeType === 3 && data.trim())).map((node) => {
          const backgrounds = [];
          for (let at = node; at; at = at.parentElement) backgrounds.unshift(getComputedStyle(at).backgroundColor);
          const [back, front] = [light(rgb(backgrounds)), light(rgb([...backgrounds, getComputedStyle(node).color]))];
          return [(Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05), node.textContent.slice(0, 30)];
        }).filter(([ratio]) => ratio < 4.5);
      });
      assert.deepEqual(low, [], colorScheme);
    }
    await waitForList(page);
  }
});

await check('screenshots', async () => {
  const shoot = async (page, name) => {
    for (const viewport of [WIDE, NARROW]) {
      await page.setViewportSize(viewport);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: path.join(outDirectory, `${name}-${viewport.width}-${colorScheme}.png`) });
      }
    }
    await page.setViewportSize(WIDE);
  };
  let page = await openPage();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await shoot(page, 'list');
  await page.evaluate(() => scrollTo(0, 1e6));
  await shoot(page, 'hostile');
  await page.selectOption('#servers', { index: 1 });
  await page.evaluate(() => scrollTo(0, 0));
  await shoot(page, 'groups');
  await page.selectOption('#servers', { index: 0 });
  await page.fill('#search', 'orders');
  await shoot(page, 'filter');
  await page.fill('#search', 'nothing like this');
  await shoot(page, 'no-match');
  script.answer = { ...searchAnswer(script.results), searched: 38, failed: 1 };
  await searchFor(page, 'timeout');
  await shoot(page, 'search');
  script.isDown = true;
  await page.click('#refresh');
  await page.waitForSelector('#status:not([hidden])');
  await shoot(page, 'ended');
  script.isDown = false;
  script.results = [];
  page = await openPage();
  await shoot(page, 'empty');
});

await check('no console error, page error, dialog, popup or policy violation', async () => {
  assert.deepEqual(complaints, []);
});

await close();
server.close();
server.closeAllConnections();
process.exit(failures ? 1 : 0);
