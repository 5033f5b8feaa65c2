// What the tests of the pages share: the packages of `.ci/npm`, headless Chromium, and what no page may do.
// ATLATL_NPM names the directory that `.ci/npm` installs into, or its node_modules
// (default: ~/.cache/atlatl/npm), CHROMIUM the browser (default: /usr/bin/chromium).
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';

/** The directory that contains node_modules. */
export const cache = (process.env.ATLATL_NPM ?? path.join(process.env.ATLATL_CACHE ?? path.join(homedir(), '.cache/atlatl'), 'npm')).replace(/\/node_modules\/?$/, '');
export const modules = path.join(cache, 'node_modules');
export const WIDE = { width: 1280, height: 820 };
export const NARROW = { width: 390, height: 844 };

/** The two arguments of the command: a file and the directory of the screenshots, which is created. */
export function fileAndDirectory(script, file) {
  const [given, directory] = process.argv.slice(2);
  if (!given || !directory) {
    console.error(`usage: node ${script} ${file} OUT_DIR`);
    process.exit(2);
  }
  mkdirSync(directory, { recursive: true });
  return [given, directory];
}

/** A browser with an empty profile, which records policy violations of each page in `window.violations`. */
export async function launch(options = {}) {
  const { chromium } = createRequire(path.join(modules, 'anchor.js'))('playwright-core');
  const profile = mkdtempSync(path.join(tmpdir(), 'atlatl-profile-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--font-render-hinting=none'],
    viewport: WIDE,
    ...options,
  });
  // A busy machine may take many seconds for a frame.
  browser.setDefaultTimeout(30_000);
  await browser.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const close = async () => {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { browser, close };
}

/** Records errors, dialogs and popups of a page; `counts` chooses among the messages of its console. */
export function record(page, incidents, counts = (message) => ['error', 'warning'].includes(message.type())) {
  const where = () => page.url().slice(0, 200);
  page.on('console', (message) => counts(message) && incidents.push(`console ${message.type()}: ${message.text().slice(0, 200)} (${where()})`));
  page.on('pageerror', (error) => incidents.push(`page error: ${error.message} (${where()})`));
  page.on('dialog', (dialog) => incidents.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
  page.on('popup', () => incidents.push('popup'));
}
