// Takes table.png: the issues of docs/examples in the browser, as `atlatl results open` shows them.
//
//     node docs/images/screenshot.mjs target/release/atlatl
//
// See crates/atlatl/tests/view/browser.mjs for the environment.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { launch } from '../../crates/atlatl/tests/view/browser.mjs';

if (!process.argv[2]) {
  console.error('usage: node screenshot.mjs PROGRAM');
  process.exit(2);
}
const program = path.resolve(process.argv[2]);
const here = path.dirname(fileURLToPath(import.meta.url));
const home = mkdtempSync(path.join(tmpdir(), 'atlatl-screenshot-'));
const options = { cwd: home, env: { HOME: home, PATH: process.env.PATH } };
const issues = path.join(here, '../examples/issues.json');
const { lro } = JSON.parse(execFileSync(program, ['offload', issues, '--tool', 'list_issues', '--json'], options));
const opened = spawn(program, ['results', 'open', lro.ref, '--no-browser'], { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
const url = await new Promise((resolve) => createInterface({ input: opened.stdout }).once('line', resolve));
const { browser, close } = await launch({ viewport: { width: 1280, height: 640 }, deviceScaleFactor: 1 });
try {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForSelector('tbody tr');
  // The most discussed first.
  const heading = page.locator('.sort', { hasText: 'comments' }).first();
  await heading.click();
  await heading.click();
  await page.waitForFunction(() => !document.querySelector('table[aria-busy=true]'));
  // Back from the column that was clicked to the first ones.
  await page.evaluate(() => { document.querySelector('table').parentElement.scrollLeft = 0; });
  await page.waitForTimeout(500);
  await page.screenshot({ path: path.join(here, 'table.png') });
} finally {
  await close();
  opened.kill('SIGTERM');
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
