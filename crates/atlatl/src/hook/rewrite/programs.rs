//! Decides whether a command may run under `atlatl run`, by its program and arguments.

mod table;

use self::table::{
    ASKING, BUILTINS, CONSOLES, INSPECTED, INTERACTIVE, INTERPRETERS, LONG_RUNNING, PROGRAMS,
    RESERVED_WORDS, RUNNERS, Rule, SERVING, SHELL_DEPENDENT, STATE_BUILTINS, WATCHING, WRAPPERS,
};
use super::Reason;
use super::syntax::Word;

/// How a command takes part in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// A program that can run under `atlatl run`.
    Program,
    /// A builtin without effect on the shell, which stays as it is.
    Builtin,
}

/// Classifies a command; an error names why it is not known.
pub(super) fn classify(words: &[Word<'_>], own_program: &str) -> Result<Usage, Reason> {
    let first = words.first().ok_or(Reason::Empty)?;
    let name = command_name(first)?;
    if contains_word(BUILTINS, name) {
        // `printf -v NAME` assigns; backslashes in words of `echo` stay as they are.
        let assigns =
            name == "printf" && words.get(1).is_some_and(|word| word.raw.starts_with('-'));
        return if assigns { Err(Reason::Assignment) } else { Ok(Usage::Builtin) };
    }
    let base = base_name(name);
    if [base_name(own_program), "atlatl"].contains(&base) {
        return Err(Reason::Atlatl);
    }
    check_lists(base)?;
    if let Some(inner) = wrapped(words)? {
        return match classify(inner, own_program)? {
            Usage::Program => Ok(Usage::Program),
            // `timeout 5 echo` runs the program echo, not the builtin.
            Usage::Builtin => Err(Reason::ShellDependent),
        };
    }
    let arguments = &words[1..];
    let rule = PROGRAMS.iter().find(|(program, _)| *program == base).map(|(_, rule)| *rule);
    // A script of the project; what it does is unknown to a host too.
    let is_script = name.contains('/') && !name.starts_with('/');
    if rule.is_none() && is_script && may_be_system_program(name, base) {
        return Err(Reason::UnknownProgram);
    }
    let rule = rule.or_else(|| is_script.then_some(Rule::Any)).ok_or(Reason::UnknownProgram)?;
    check_common(arguments)?;
    check_rule(rule, arguments)?;
    if is_script || contains_word(INTERPRETERS, base) {
        check_script(words)?;
    }
    check_details(base, arguments)?;
    Ok(Usage::Program)
}

/// The name of the first program that a line runs, without its directory. `None` if the line cannot be
/// parsed, or runs builtins only.
pub fn program_name(line: &str) -> Option<&str> {
    let line = super::syntax::parse(line).ok()?;
    line.commands().find_map(|command| {
        let is_assignment = |word: &&Word<'_>| command_name(word) == Err(Reason::Assignment);
        let mut words = &command.words[command.words.iter().take_while(is_assignment).count()..];
        while let Ok(Some(inner)) = wrapped(words) {
            words = inner;
        }
        let name = words.first()?.raw;
        let is_builtin = contains_word(BUILTINS, name) || contains_word(STATE_BUILTINS, name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
        (name.chars().all(is_plain) && !is_builtin).then(|| base_name(name))
    })
}

/// Whether a relative path may lead to a program of the system that is not in the table: it leaves the
/// directory, or its name is one that hosts check (`../../bin/rm`, `./bin/env`).
fn may_be_system_program(name: &str, base: &str) -> bool {
    contains_word(INSPECTED, base)
        || contains_word(WRAPPERS, base)
        || name.split('/').any(|part| part == "..")
}

/// The name of a command, which must be written as it is.
fn command_name<'w>(word: &'w Word<'_>) -> Result<&'w str, Reason> {
    let name = word.raw;
    if name == "[" {
        return Ok(name);
    }
    let is_variable = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some((variable, _)) = name.split_once('=') {
        let variable = variable.strip_suffix('+').unwrap_or(variable);
        let variable = variable.split('[').next().unwrap_or_default();
        if !variable.is_empty() && variable.chars().all(is_variable) {
            return Err(Reason::Assignment);
        }
    }
    if name == "[[" {
        return Err(Reason::ReservedWord);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
    if !name.chars().all(is_plain) || name.starts_with('-') || name.ends_with('/') {
        return Err(Reason::CommandName);
    }
    Ok(name)
}

/// Whether a list of words has this word.
fn contains_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|item| item == word)
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn check_lists(base: &str) -> Result<(), Reason> {
    let lists: [(&str, Reason); 5] = [
        (RESERVED_WORDS, Reason::ReservedWord),
        (STATE_BUILTINS, Reason::ShellState),
        (SHELL_DEPENDENT, Reason::ShellDependent),
        (INTERACTIVE, Reason::Interactive),
        (LONG_RUNNING, Reason::LongRunning),
    ];
    let listed = lists.iter().find(|(list, _)| contains_word(list, base));
    listed.map_or(Ok(()), |(_, reason)| Err(*reason))
}

/// The command that a wrapper runs, or none if this is no wrapper. Options of a wrapper are not known.
fn wrapped<'w, 'a>(words: &'w [Word<'a>]) -> Result<Option<&'w [Word<'a>]>, Reason> {
    let Some((first, arguments)) = words.split_first() else { return Ok(None) };
    let name = first.raw;
    let is_runner = |word: &Word<'_>| RUNNERS.contains(&(name, word.raw));
    if arguments.first().is_some_and(is_runner) {
        return if arguments.len() > 1 {
            Ok(Some(&arguments[1..]))
        } else {
            Err(Reason::Arguments)
        };
    }
    if !contains_word(WRAPPERS, name) {
        return Ok(None);
    }
    let inner = match name {
        "env" => {
            let is_assignment =
                |word: &Word<'_>| word.raw.contains('=') && !word.raw.starts_with('-');
            let assignments = arguments.iter().take_while(|word| is_assignment(word)).count();
            &arguments[assignments..]
        }
        "timeout" => match arguments {
            [duration, inner @ ..] if is_duration(duration.raw) => inner,
            _ => return Err(Reason::Arguments),
        },
        "nice" => match arguments {
            [option, value, inner @ ..] if option.raw == "-n" && is_duration(value.raw) => inner,
            inner => inner,
        },
        "npx" => arguments,
        // stdbuf
        _ => match arguments {
            [option, inner @ ..] if ["-oL", "-o0", "-i0", "-eL"].contains(&option.raw) => inner,
            _ => return Err(Reason::Arguments),
        },
    };
    // `env` without a command prints variables, among them the path of the program that started it.
    if inner.is_empty() { Err(Reason::ShellDependent) } else { Ok(Some(inner)) }
}

fn is_duration(text: &str) -> bool {
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    !digits.is_empty()
        && text.len() - digits.len() <= 1
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether `word` is `option`, with or without a value. A short option is also found in a cluster.
fn has_option(word: &Word<'_>, option: &str) -> bool {
    let text = word.text.as_str();
    let with_value = || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
    let is_short = option.len() == 2 && option.starts_with('-');
    let cluster = || {
        is_short && text.starts_with('-') && !text.starts_with("--") && text.contains(&option[1..])
    };
    text == option || with_value() || cluster()
}

/// Whether an argument is one of the options.
fn has_any_option(arguments: &[Word<'_>], options: &str) -> bool {
    let mut options = options.split_whitespace();
    options.any(|option| arguments.iter().any(|word| has_option(word, option)))
}

/// Arguments that no program may have.
fn check_common(arguments: &[Word<'_>]) -> Result<(), Reason> {
    if has_any_option(arguments, WATCHING) {
        return Err(Reason::LongRunning);
    }
    if has_any_option(arguments, ASKING) {
        return Err(Reason::Interactive);
    }
    Ok(())
}

fn check_rule(rule: Rule, arguments: &[Word<'_>]) -> Result<(), Reason> {
    let passes = match rule {
        Rule::Any => true,
        Rule::Script => {
            return if arguments.is_empty() { Err(Reason::Interactive) } else { Ok(()) };
        }
        Rule::Without(options) => !has_any_option(arguments, options),
        Rule::With(options) => arguments.iter().any(|word| contains_word(options, &word.text)),
        Rule::Subcommand(commands) => starts_with_any(arguments, commands),
        Rule::ExceptSubcommand(commands) => {
            let Some(first) = arguments.first() else { return Err(Reason::Interactive) };
            first.is_literal && !starts_with_any(arguments, commands)
        }
    };
    if passes { Ok(()) } else { Err(Reason::Arguments) }
}

/// Whether the arguments begin with one of the commands, each of one or two words.
fn starts_with_any(arguments: &[Word<'_>], commands: &str) -> bool {
    commands.split(", ").filter(|command| !command.is_empty()).any(|command| {
        let mut given = arguments.iter();
        command
            .split(' ')
            .all(|part| given.next().is_some_and(|word| word.is_literal && word.text == part))
    })
}

/// Conditions of single programs.
fn check_details(base: &str, arguments: &[Word<'_>]) -> Result<(), Reason> {
    let first = arguments.first().map(|word| word.text.as_str()).unwrap_or_default();
    let has = |option: &str| arguments.iter().any(|word| has_option(word, option));
    let follows = has("-f") || has("-w") || arguments.iter().any(|word| word.text == "watch");
    match base {
        // `-f` follows, `-w` watches.
        "docker" | "kubectl" if follows => Err(Reason::LongRunning),
        "npm" | "pnpm" | "yarn" | "bun" | "composer" | "cargo" | "just" | "make" | "webpack"
            if arguments.iter().any(|word| is_serving(&word.text)) =>
        {
            Err(Reason::LongRunning)
        }
        _ if contains_word(INTERPRETERS, base) => check_interpreter(arguments),
        "sed" => check_sed(arguments),
        // A database and a statement; with the database alone it asks for statements.
        "sqlite3" if arguments.iter().filter(|word| !word.raw.starts_with('-')).count() < 2 => {
            Err(Reason::Interactive)
        }
        "awk" if first.starts_with("-i") => Err(Reason::Arguments),
        _ => Ok(()),
    }
}

/// Whether a word names a script that serves: `dev`, `dev:web`, `bin/start-server`, `server.js`.
fn is_serving(word: &str) -> bool {
    let part = base_name(word).split([':', '-', '.', '_']).next().unwrap_or_default();
    contains_word(SERVING, part)
}

/// A script, perhaps after its interpreter: not one that serves or reads commands.
fn check_script(words: &[Word<'_>]) -> Result<(), Reason> {
    if words.iter().any(|word| is_serving(&word.text)) {
        return Err(Reason::LongRunning);
    }
    if words.iter().any(|word| contains_word(CONSOLES, &word.text)) {
        return Err(Reason::Interactive);
    }
    Ok(())
}

/// An interpreter with a script, a module or a statement, not one that asks, serves or reads a script
/// from its input.
fn check_interpreter(arguments: &[Word<'_>]) -> Result<(), Reason> {
    const SERVERS: &str = "http.server uvicorn gunicorn flask livereload";
    const ASKING_MODULES: &str = "pdb ipdb code IPython idlelib asyncio";
    let texts = || arguments.iter().map(|word| word.text.as_str());
    if texts().all(|text| ["-", "-u", "-q"].contains(&text)) || texts().any(|text| text == "-i") {
        return Err(Reason::Interactive);
    }
    let mut pairs = arguments.windows(2);
    let module = pairs.find(|pair| pair[0].text == "-m").map(|pair| pair[1].text.as_str());
    match module {
        Some(module) if contains_word(SERVERS, module) => Err(Reason::LongRunning),
        Some(module) if contains_word(ASKING_MODULES, module) => Err(Reason::Interactive),
        _ => Ok(()),
    }
}

/// `sed -n 10,20p FILE…`: line numbers and one command that prints. Others can write files.
fn check_sed(arguments: &[Word<'_>]) -> Result<(), Reason> {
    let is_print = |script: &str| {
        let addresses = script.strip_suffix('p').unwrap_or_default();
        !addresses.is_empty() && addresses.chars().all(|c| c.is_ascii_digit() || ",$".contains(c))
    };
    match arguments {
        [option, script, files @ ..]
            if option.raw == "-n"
                && script.is_literal
                && is_print(&script.text)
                && !files.iter().any(|word| word.text.starts_with('-')) =>
        {
            Ok(())
        }
        _ => Err(Reason::Arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_line_is_the_first_that_is_no_builtin() {
        for (line, expected) in [
            ("cargo test --all", Some("cargo")),
            ("cd /w && FOO=secret /usr/bin/git log | head", Some("git")),
            ("env A=1 timeout 5 npm ls", Some("npm")),
            ("./scripts/check.sh -v", Some("check.sh")),
            ("echo done", None),
            ("$RUN x", None),
            ("cat <<E", None),
            ("", None),
        ] {
            assert_eq!(program_name(line), expected, "{line}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_in_no_other_list() {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted(), "{:?}", names.windows(2).find(|pair| pair[0] > pair[1]));
        for name in names {
            assert_eq!(check_lists(name), Ok(()), "{name}");
            for list in [BUILTINS, WRAPPERS, INSPECTED] {
                assert!(!contains_word(list, name), "{name}");
            }
        }
    }

    #[test]
    fn options_are_found_in_clusters_and_with_values() {
        let word = |text: &str| Word { raw: "", text: text.to_owned(), is_literal: true };
        for text in ["-o", "-uo", "-ofile"] {
            assert!(has_option(&word(text), "-o"), "{text}");
        }
        assert!(has_option(&word("--output=x"), "--output"));
        for text in ["--no", "o", "--output-sync", "-"] {
            assert!(
                !has_option(&word(text), "-o") && !has_option(&word(text), "--output"),
                "{text}"
            );
        }
    }
}
