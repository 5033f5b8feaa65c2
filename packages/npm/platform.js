// Where the program for this platform is: in a package of its own, an optional dependency of the
// one that holds this file, so that npm installs the right one and no script has to run.
'use strict';

const MAIN = require('./package.json');

/** The package that holds the program for a platform; undefined where there is none. */
function packageFor(platform, arch) {
  const name = `${MAIN.name}-${platform}-${arch}`;
  return name in MAIN.optionalDependencies ? name : undefined;
}

/** The program's path, or an error whose message says what to do. */
function program(platform, arch, resolve = require.resolve) {
  const name = packageFor(platform, arch);
  if (name === undefined) {
    const known = Object.keys(MAIN.optionalDependencies)
      .map((name) => name.slice(MAIN.name.length + 1))
      .join(', ');
    throw new Error(
      `atlatl: there is no program for ${platform}-${arch}, only for ${known}\n` +
        'hint: build it with `cargo install --locked ' + MAIN.name + '`',
    );
  }
  try {
    return resolve(`${name}/bin/atlatl`);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error(
      `atlatl: the package ${name} is not installed, which holds the program for this platform\n` +
        'hint: optional dependencies were left out, or node_modules comes from another platform;\n' +
        `      run \`npm install ${name}@${MAIN.version}\``,
    );
  }
}

module.exports = { packageFor, program };
