// Serves installed packages to a browser without a bundler: an import map over node_modules.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

const CONDITIONS = ['browser', 'import', 'default'];

/** The file that an entry of `exports` names in a browser. */
function fileOf(entry) {
  if (typeof entry === 'string' || entry == null) return entry;
  const condition = Object.keys(entry).find((name) => CONDITIONS.includes(name) && fileOf(entry[name]));
  return condition && fileOf(entry[condition]);
}

function resolve(specifier, directory, root) {
  const [, name, rest] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(specifier);
  for (let at = directory; at.startsWith(root); at = path.dirname(at)) {
    const home = path.join(at, 'node_modules', name);
    if (!existsSync(path.join(home, 'package.json'))) continue;
    const manifest = JSON.parse(readFileSync(path.join(home, 'package.json'), 'utf8'));
    const entries = typeof manifest.exports === 'string' ? { '.': manifest.exports } : manifest.exports;
    const file = entries ? fileOf(entries[`.${rest}`] ?? (rest ? undefined : entries)) : rest || manifest.module || manifest.main;
    if (file) return path.join(home, file);
  }
  throw new Error(`cannot resolve ${specifier} from ${directory}`);
}

/** The import map for `specifiers` and all that they import; `root` holds node_modules, served at `/npm/`. */
export function importMap(specifiers, root) {
  const map = { imports: {}, scopes: {} };
  const url = (file) => `/npm/${path.relative(path.join(root, 'node_modules'), file)}`;
  const files = new Set();
  const crawl = (file) => {
    if (files.has(file)) return;
    files.add(file);
    const directory = path.dirname(file);
    const source = readFileSync(file, 'utf8');
    for (const [, specifier] of source.matchAll(/(?:^|[\s;}])(?:import|export)\s*(?:[\w$*{][^"'`;()]*?from\s*)?["']([^"']+)["']/g)) {
      if (specifier.startsWith('.')) {
        crawl(path.join(directory, specifier));
        continue;
      }
      const target = resolve(specifier, directory, root);
      (map.scopes[`${path.dirname(url(file))}/`] ??= {})[specifier] = url(target);
      crawl(target);
    }
  };
  for (const specifier of specifiers) {
    const file = resolve(specifier, root, root);
    map.imports[specifier] = url(file);
    crawl(file);
  }
  return map;
}
