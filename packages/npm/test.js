// The launcher, with programs of our own in the place of atlatl's. Run by `.ci/packages`.
'use strict';

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const test = require('node:test');

const HERE = `${process.platform}-${process.arch}`;
const MANIFEST = {
  name: 'atlatl-lro',
  version: '1.2.3',
  optionalDependencies: { [`atlatl-lro-${HERE}`]: '1.2.3', 'atlatl-lro-other-cpu': '1.2.3' },
};

/** The main package as npm would install it; with a shell script for a program, where one is given. */
function installed(t, script) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'launcher-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const main = path.join(root, 'node_modules', 'atlatl-lro');
  fs.mkdirSync(main, { recursive: true });
  fs.writeFileSync(path.join(main, 'package.json'), JSON.stringify(MANIFEST));
  for (const file of ['atlatl.js', 'platform.js']) {
    fs.copyFileSync(path.join(__dirname, file), path.join(main, file));
  }
  if (script !== undefined) {
    const bin = path.join(root, 'node_modules', `atlatl-lro-${HERE}`, 'bin');
    fs.mkdirSync(bin, { recursive: true });
    fs.writeFileSync(path.join(bin, 'atlatl'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return main;
}

function run(main, args = [], options = {}) {
  const launcher = path.join(main, 'atlatl.js');
  return spawnSync(process.execPath, [launcher, ...args], { encoding: 'utf8', ...options });
}

test('arguments, streams and the exit status are the program’s', (t) => {
  const main = installed(t, 'cat; printf "%s|" "$@"; echo told >&2; exit 42');
  const { status, stdout, stderr } = run(main, ['a b', '--x', ''], { input: 'in ' });
  assert.deepEqual([status, stdout, stderr], [42, 'in a b|--x||', 'told\n']);
});

test('a program ended by a signal ends the launcher by the same', (t) => {
  const main = installed(t, 'kill -KILL $$');
  const { status, signal } = run(main);
  assert.deepEqual([status, signal], [null, 'SIGKILL']);
});

test('signals are passed on, and the program decides', { timeout: 60_000 }, async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    const trap = `trap 'echo got; exit 7' ${signal.slice(3)}; echo ready; while :; do sleep 0.05; done`;
    const main = installed(t, trap);
    const child = spawn(process.execPath, [path.join(main, 'atlatl.js')]);
    let printed = '';
    child.stdout.on('data', (chunk) => {
      if (printed === '') child.kill(signal);
      printed += chunk;
    });
    const [status] = await once(child, 'close');
    assert.deepEqual([status, printed], [7, 'ready\ngot\n'], signal);
  }
});

test('a missing platform package is an error with the command that mends it', (t) => {
  const { status, stdout, stderr } = run(installed(t));
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, new RegExp(`the package atlatl-lro-${HERE} is not installed`));
  assert.match(stderr, new RegExp(`npm install atlatl-lro-${HERE}@1\\.2\\.3`));
});

test('a platform that nothing is built for is named, with those that are', (t) => {
  const { program } = require(path.join(installed(t), 'platform.js'));
  assert.throws(() => program('sunos', 'sparc'), (error) => {
    assert.match(error.message, /no program for sunos-sparc/);
    assert.match(error.message, new RegExp(`${HERE}, other-cpu`));
    return true;
  });
});

test('a program that cannot be started is an error that names it', (t) => {
  const main = installed(t, 'true');
  const program = path.join(main, '..', `atlatl-lro-${HERE}`, 'bin', 'atlatl');
  fs.chmodSync(program, 0o644);
  const { status, stderr } = run(main);
  assert.equal(status, 1);
  assert.match(stderr, /cannot start .*bin\/atlatl: .*EACCES/);
});
