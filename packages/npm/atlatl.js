#!/usr/bin/env node
// Starts the program for this platform in the place of this one: the same standard streams, every
// signal passed on, its exit status or the signal that ended it kept.
'use strict';

const { spawn } = require('node:child_process');
const { program } = require('./platform.js');

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function run(path) {
  let child;
  const pass = (signal) => child.kill(signal);
  // Before there is a child: a signal that comes right behind its start would end the launcher and
  // leave it alone. Handlers run after this function, so that it is set by then.
  for (const signal of SIGNALS) process.on(signal, pass);
  child = spawn(path, process.argv.slice(2), { stdio: 'inherit' });
  child.on('error', (error) => fail(`atlatl: cannot start ${path}: ${error.message}`));
  child.on('exit', (status, signal) => {
    if (signal === null) process.exit(status);
    for (const name of SIGNALS) process.removeListener(name, pass);
    process.kill(process.pid, signal);
  });
}

let path;
try {
  path = program(process.platform, process.arch);
} catch (error) {
  fail(error.message);
}
run(path);
