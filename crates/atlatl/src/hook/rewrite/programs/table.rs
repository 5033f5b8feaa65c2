//! The table of programs that may run under `atlatl run`, and lists of those that may not.
//!
//! A program is in the table if it is a file in the file system on every system, does not talk to a
//! person, ends on its own, and is not one whose arguments hosts inspect for damage (`rm`, `sed -i`,
//! `chmod`): a host would not see these behind `atlatl run`.

/// The condition on a program's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// All arguments.
    Any,
    /// At least one argument; without one the program reads commands from its input.
    Script,
    /// None of these options, which blanks separate; a short one is also found in a cluster.
    Without(&'static str),
    /// The first argument, or the first two, are one of these, which commas separate.
    Subcommand(&'static str),
    /// None of these subcommands, and at least one argument.
    ExceptSubcommand(&'static str),
    /// One of these options.
    With(&'static str),
}

use Rule::{Any, ExceptSubcommand, Script, Subcommand, With, Without};

/// Builtins without effect on the shell and with short output.
pub(super) const BUILTINS: &str = "echo printf true false test [ pwd :";

/// Builtins that change or read the state of the calling shell.
pub(super) const STATE_BUILTINS: &str = "\
    . alias autoload bind bindkey bg break cd chdir compgen complete continue declare dirs \
    disable disown emulate enable eval exec exit export fc fg float getopts hash history \
    integer jobs let local logout mapfile popd pushd read readarray readonly rehash return set \
    setopt shift shopt source suspend trap typeset ulimit umask unalias unfunction unhash unset \
    unsetopt vared wait zle zmodload zstyle";

/// Commands whose meaning depends on the shell, on the terminal or on the tree of processes.
pub(super) const SHELL_DEPENDENT: &str = "\
    bash builtin caller chroot command csh dash doas fish fuser gdb help ionice kill killall \
    ksh ltrace lldb lsof nocorrect noglob nohup parallel pgrep pidof pkill printenv ps pstree \
    pwsh renice run0 script setsid sh strace su sudo tcsh times tty type unbuffer whence where \
    which xargs zsh";

/// Reserved words of sh, bash and zsh that can begin a command.
pub(super) const RESERVED_WORDS: &str = "\
    case coproc do done elif else end esac fi for foreach function if repeat select then time \
    until while";

/// Programs that talk to a person.
pub(super) const INTERACTIVE: &str = "\
    alsamixer bat bpython btop crontab dialog emacs ftp fzf ghci gitui glances gum helix htop \
    hx iex iotop ipython irb jshell k9s lazydocker lazygit less links lynx man mc micro more \
    most mosh mutt nano ncdu nmtui nvim passwd pico ranger redis-cli screen sftp ssh tclsh \
    telnet tig tmux top vi view vim vimdiff visudo w3m whiptail wish zellij";

/// Programs that run until they are stopped.
pub(super) const LONG_RUNNING: &str = "\
    air caddy chokidar entr fswatch gunicorn hypercorn inotifywait nginx nodemon pm2 \
    redis-server serve socat tcpdump uvicorn watch watchexec watchman yes";

/// Words among the arguments of any program with which it does not end, or asks.
pub(super) const WATCHING: &str = "--watch --watchAll --watch-all -watch --follow --daemon --serve";
pub(super) const ASKING: &str =
    "--interactive --pdb --web --open --ui --trace-fork --inspect-brk --tty";

/// Names of scripts of a package that start a server or a watcher.
pub(super) const SERVING: &str =
    "dev develop preview runserver serve server start storybook up watch";

/// Words with which a script reads commands from its input.
pub(super) const CONSOLES: &str = "c console dbconsole dbshell repl shell";

const PACKAGE_MANAGER: Rule = ExceptSubcommand(
    "adduser, config, create, dlx, edit, exec, explore, init, link, login, logout, publish, \
         set, shell, token, unpublish, x",
);

/// The programs, by their names without a directory, sorted.
pub(super) const PROGRAMS: &[(&str, Rule)] = &[
    ("awk", Script),
    ("aws", ExceptSubcommand("configure, login, sso, ssm, logs tail")),
    ("az", ExceptSubcommand("login, logout, interactive, ssh")),
    ("base64", Any),
    ("basename", Any),
    ("biome", Subcommand("check, ci, lint")),
    ("black", Script),
    ("bun", PACKAGE_MANAGER),
    ("bundle", Subcommand("check, install, list, outdated, show")),
    ("cabal", ExceptSubcommand("repl, init, exec")),
    ("cargo", ExceptSubcommand("login, logout, owner, publish, yank, init")),
    ("cat", Any),
    ("clang", Script),
    ("clang++", Script),
    ("cloc", Any),
    ("cmake", Script),
    ("cmp", Any),
    ("column", Any),
    ("comm", Any),
    ("composer", ExceptSubcommand("config, init, exec, create-project")),
    ("coverage", ExceptSubcommand("")),
    ("ctest", Any),
    (
        "curl",
        Without(
            "-o -O -J -T -K -N --output --output-dir --remote-name --remote-name-all --upload-file \
         --config --no-buffer --create-dirs -c --cookie-jar -D --dump-header --trace \
         --trace-ascii --stderr",
        ),
    ),
    ("cut", Any),
    ("date", Without("-s --set")),
    ("deno", Subcommand("bench, check, doc, fmt, info, lint, test")),
    ("df", Any),
    ("diff", Any),
    ("dirname", Any),
    (
        "docker",
        Subcommand(
            "build, compose build, compose config, compose images, compose logs, compose ls, compose \
         ps, container ls, diff, history, image ls, images, info, inspect, logs, network \
         inspect, network ls, port, ps, search, system df, version, volume inspect, volume ls",
        ),
    ),
    ("dotnet", Subcommand("build, format, list, restore, test, --info")),
    ("du", Any),
    ("egrep", Script),
    ("eslint", Any),
    ("expand", Any),
    ("fd", Without("-x -X --exec --exec-batch")),
    ("fgrep", Script),
    ("file", Any),
    ("find", Without("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls")),
    ("flake8", Any),
    ("fmt", Any),
    ("fold", Any),
    ("g++", Script),
    ("gcc", Script),
    ("gcloud", ExceptSubcommand("auth, init, config, interactive, compute ssh")),
    (
        "gh",
        Subcommand(
            "api, issue list, issue view, pr checks, pr diff, pr list, pr view, release list, \
         release view, repo list, repo view, run list, run view, search code, search issues, \
         search prs, search repos, workflow list",
        ),
    ),
    (
        "git",
        Subcommand(
            "blame, cat-file, describe, diff, diff-tree, for-each-ref, grep, log, ls-files, \
         ls-remote, ls-tree, merge-base, name-rev, reflog, rev-list, rev-parse, shortlog, show, \
         show-ref, stash list, stash show, status, whatchanged, worktree list",
        ),
    ),
    (
        "go",
        Subcommand(
            "build, doc, env, fmt, generate, list, mod download, mod graph, mod tidy, mod verify, \
         mod why, run, test, version, vet",
        ),
    ),
    ("golangci-lint", Subcommand("run, linters, version")),
    ("gradle", Script),
    ("gradlew", Script),
    ("grep", Script),
    ("gzip", With("-l --list")),
    ("head", Any),
    (
        "helm",
        Subcommand(
            "dependency list, get, history, lint, list, search, show, status, template, version",
        ),
    ),
    ("hexdump", Any),
    ("hostname", Subcommand("-f, -i, -I, -s")),
    ("id", Any),
    ("java", Script),
    ("javac", Script),
    ("jest", Any),
    ("join", Any),
    ("journalctl", Without("-f --vacuum-size --vacuum-time --rotate --flush")),
    ("jq", Any),
    ("just", Script),
    (
        "kubectl",
        Subcommand(
            "api-resources, api-versions, auth can-i, cluster-info, config get-contexts, config \
         view, describe, diff, events, explain, get, logs, rollout history, rollout status, top, \
         version",
        ),
    ),
    ("ls", Any),
    ("make", Any),
    ("md5sum", Any),
    ("meson", Subcommand("compile, setup, test, introspect")),
    ("mix", Subcommand("compile, credo, deps, deps.get, dialyzer, format, test")),
    ("mocha", Any),
    ("mvn", Script),
    ("mvnw", Script),
    ("mypy", Script),
    ("mysql", With("-e --execute")),
    ("ninja", Any),
    ("nl", Any),
    ("node", Script),
    ("nox", Any),
    ("npm", PACKAGE_MANAGER),
    ("nproc", Any),
    ("od", Any),
    ("paste", Any),
    ("perl", Without("-i -d")),
    ("php", Without("-a -S --interactive --server")),
    ("phpunit", Any),
    ("pip", Subcommand("check, download, freeze, index, inspect, install, list, show")),
    ("pip3", Subcommand("check, download, freeze, index, inspect, install, list, show")),
    ("playwright", Subcommand("install, test")),
    ("pnpm", PACKAGE_MANAGER),
    ("poetry", Subcommand("check, install, lock, show, update, version")),
    ("prettier", Without("-w --write")),
    ("psql", With("-c -tc -tAc -Atc --command -l --list")),
    ("pylint", Script),
    ("pyright", Any),
    ("pytest", Without("--pdb --trace -f --looponfail")),
    ("python", Script),
    ("python3", Script),
    ("rake", Any),
    ("readlink", Any),
    ("realpath", Any),
    ("rev", Any),
    ("rg", Without("--pre --pre-glob --hostname-bin")),
    ("rspec", Any),
    ("rubocop", Without("-a -A --autocorrect --autocorrect-all --start-server")),
    ("ruby", Script),
    ("ruff", Subcommand("check, format, rule, version")),
    ("rustc", Script),
    ("rustup", Subcommand("show, toolchain list, component list, target list, check")),
    ("sbt", Script),
    ("sed", Any),
    ("seq", Any),
    ("sha1sum", Any),
    ("sha256sum", Any),
    ("sha512sum", Any),
    ("shasum", Any),
    ("shellcheck", Script),
    ("sort", Without("-o --output --compress-program")),
    ("sqlite3", Any),
    ("stack", Subcommand("build, test, haddock, path")),
    ("stat", Any),
    ("strings", Any),
    ("swift", Subcommand("build, test")),
    (
        "systemctl",
        Subcommand("cat, is-active, list-timers, list-unit-files, list-units, show, status"),
    ),
    ("tac", Any),
    ("tail", Without("-f -F --follow --retry")),
    ("tar", With("-t -tf -tvf -tzf -tvzf -tjf --list tf tvf tzf")),
    (
        "terraform",
        Subcommand(
            "graph, output, plan, providers, show, state list, state show, validate, version",
        ),
    ),
    (
        "tofu",
        Subcommand(
            "graph, output, plan, providers, show, state list, state show, validate, version",
        ),
    ),
    ("tox", Any),
    ("tr", Script),
    ("tree", Without("-o")),
    ("tsc", Without("-w")),
    ("tsx", ExceptSubcommand("watch")),
    ("uname", Any),
    ("unexpand", Any),
    ("uniq", Any),
    ("unzip", With("-l -v -Z")),
    ("uptime", Any),
    (
        "uv",
        Subcommand(
            "lock, pip check, pip freeze, pip install, pip list, pip show, pip tree, sync, tree, \
         version",
        ),
    ),
    ("vitest", Subcommand("run, list, bench")),
    ("vulture", Script),
    ("wc", Any),
    ("webpack", Any),
    ("whoami", Any),
    ("xcodebuild", Script),
    ("xxd", Without("-r")),
    ("yarn", PACKAGE_MANAGER),
    ("yq", Without("-i --inplace --in-place")),
    ("zcat", Any),
    ("zgrep", Script),
    ("zig", Subcommand("ast-check, build, fmt, test, version")),
];

/// Interpreters, whose first arguments are a script.
pub(super) const INTERPRETERS: &str = "deno java node perl php python python3 ruby tsx";

/// Programs that hosts recognise by their names, with any directory before it: they check the arguments of
/// these for damage, or run them as another command.
pub(super) const INSPECTED: &str = "\
    busybox chgrp chmod chown cp dd install ln mkdir mv rm rmdir shred tee touch toybox trap \
    truncate unlink";

/// Wrappers: programs that run the rest of their arguments as a command.
pub(super) const WRAPPERS: &str = "env nice npx stdbuf timeout";

/// Subcommands that run the rest of their arguments as a command.
pub(super) const RUNNERS: &[(&str, &str)] =
    &[("bundle", "exec"), ("pnpm", "exec"), ("poetry", "run"), ("uv", "run"), ("yarn", "exec")];
