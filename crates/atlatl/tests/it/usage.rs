//! The command line: help, version, what is refused.

use std::process::Command;

use crate::program::Program;

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!(Program::new().run(&["--help"]), @"
    status: 0
    --- stdout
    Keeps large tool results out of a model's context window.

    Atlatl decides when a tool result is too large for a model's context window,
    stores it, describes it instead, and answers questions about it.

    Usage: atlatl [OPTIONS] <COMMAND>

    Commands:
      offload      Store a tool result if it is large, print what takes its place
      extract      Ask a stored result: recipe, jq, SQL, search, range
      install      Put the servers of your MCP clients behind the proxy
      uninstall    Restore your clients' configuration
      doctor       Find what makes Atlatl fail on this machine, with a fix for each
      proxy        Stand in front of an MCP server and keep its large results
      serve        Serve memories: recall, search, list, capture
      tools        Serve the extraction tools alone, for all proxies of a project
      login        Log in at a remote MCP server
      logout       Log out at a remote MCP server
      whoami       Show at which servers you are logged in
      results      List, show and clean stored results
      stats        Show what offloading saved, net of what it cost
      memory       Keep, find and carry memories of your own
      db           Manage the PostgreSQL database
      tenants      Make, list and remove the tenants of a team's database
      keys         Make, list and revoke keys to tenants' memories
      completions  Print what a shell needs to complete command lines
      man          Write the manual pages, one for each command
      trust        Let a project's file set every configuration key
      config       Show, describe and check the configuration
      help         Print this message or the help of the given subcommand(s)

    Options:
          --output <FORM>
              human or json [default: human on a terminal, else
              json]; extract also takes table, jsonl and csv

          --config <FILE>
              Read this configuration file and no other

          --set <KEY=VALUE>
              Set one key, above every file and variable:
              --set prompt.offload.enabled=false

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Data goes to standard output, everything else to standard error.

    Exit status:
      0  it worked
      1  it failed
      2  the command line or the configuration is wrong
    --- stderr
    ");
    insta::assert_snapshot!(Program::new().run(&["config", "--help"]), @"
    status: 0
    --- stdout
    Show, describe and check the configuration

    Usage: atlatl config [OPTIONS] <COMMAND>

    Commands:
      show    Print every key with the value that applies
      schema  Print the JSON Schema of the configuration file
      check   Check the configuration and print everything that is wrong with it
      help    Print this message or the help of the given subcommand(s)

    Options:
          --output <FORM>    human or json [default: human on a terminal, else
                             json]; extract also takes table, jsonl and csv
          --config <FILE>    Read this configuration file and no other
          --set <KEY=VALUE>  Set one key, above every file and variable:
                             --set prompt.offload.enabled=false
      -h, --help             Print help
    --- stderr
    ");
}

#[test]
fn help_says_how_to_ask_about_a_result() {
    insta::assert_snapshot!(Program::new().run(&["offload", "--help"]), @"
    status: 0
    --- stdout
    Store a tool result if it is large, print what takes its place

    Takes an MCP tool result (`CallToolResult`), JSON, JSONL, CSV, TSV or text. A
    small one is printed as it is. A large one is stored, and its descriptor is
    printed: the same object that a client gets, indented on a terminal.
    With --dry-run nothing is stored; it says what was recognised, how many tokens
    it would take, what would be done with it and why.

    Usage: atlatl offload [OPTIONS] [FILE]

    Arguments:
      [FILE]
              The result; - is standard input, the default

    Options:
          --dry-run
              Say what would be done and why, and store nothing

          --output <FORM>
              human or json [default: human on a terminal, else
              json]; extract also takes table, jsonl and csv

          --config <FILE>
              Read this configuration file and no other

          --tool <NAME>
              The tool that returned it, for policies and thresholds
              [default: `recall_memories` if it is memories]

          --query <TEXT>
              The query that it answers, for the stored header

          --set <KEY=VALUE>
              Set one key, above every file and variable:
              --set prompt.offload.enabled=false

          --scope <TEXT>
              Keep it apart from other results of this directory;
              those of memory operations lie together

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      atlatl offload result.json
      atlatl offload --tool read_file < result.json
      atlatl offload --dry-run --set proxy.threshold_tokens=500 rows.csv
    --- stderr
    ");
}

#[test]
fn help_fits_80_columns() {
    let commands: [&[&str]; 22] = [
        &[],
        &["offload"],
        &["extract"],
        &["doctor"],
        &["results"],
        &["results", "list"],
        &["results", "show"],
        &["results", "path"],
        &["results", "clean"],
        &["memory"],
        &["memory", "add"],
        &["memory", "search"],
        &["memory", "list"],
        &["memory", "show"],
        &["memory", "edit"],
        &["memory", "forget"],
        &["memory", "repair"],
        &["memory", "import"],
        &["memory", "export"],
        &["config", "show"],
        &["config", "schema"],
        &["config", "check"],
    ];
    for command in commands {
        for flag in ["-h", "--help"] {
            let run = Program::new().run(&[command, &[flag]].concat());
            assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run}");
        }
    }
}

#[test]
fn the_version_is_the_packages() {
    let run = Program::new().run(&["--version"]);
    assert_eq!(run.stdout, format!("atlatl {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run.status, 0);
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    insta::assert_snapshot!(Program::new().run(&["confg"]), @"
    status: 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'confg'

      tip: a similar subcommand exists: 'config'

    Usage: atlatl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(Program::new().run(&["config", "show", "--output", "xml"]), @"
    status: 2
    --- stdout
    --- stderr
    error: invalid value 'xml' for '--output <FORM>'
      [possible values: human, json, jsonl, csv]

    For more information, try '--help'.
    ");
    assert_eq!(Program::new().run(&[]).status, 2);
}

#[test]
fn a_named_file_that_is_not_there_is_an_error() {
    insta::assert_snapshot!(Program::new().run(&["--config", "none.toml", "config", "show"]), @"
    status: 2
    --- stdout
    --- stderr
    error: none.toml: cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = Command::new(env!("CARGO_BIN_EXE_atlatl"))
        .args(["config", "schema"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_exits_with_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_atlatl"))
        .args(["config", "schema"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    let message = "error: cannot write the output: No space left on device (os error 28)\n";
    assert_eq!(String::from_utf8_lossy(&run.stderr), message);
}

#[test]
fn completions_are_scripts_of_their_shell_and_know_the_commands() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = program.run(&["completions", shell]);
        assert_eq!(run.status, 0, "{run}");
        for word in ["uninstall", "listen", "query"] {
            assert!(run.stdout.contains(word), "{shell}: {word}");
        }
    }
    let script = program.run(&["completions", "bash"]).stdout;
    let asked = format!(
        "{script}\nCOMP_WORDS=(atlatl unin); COMP_CWORD=1; _atlatl atlatl unin atlatl; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &asked]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "uninstall", "{output:?}");
    assert_eq!(program.run(&["completions", "tcsh"]).status, 2);
}

#[test]
fn manual_pages_are_one_for_each_command_and_say_what_its_help_says() {
    let program = Program::new();
    let run = program.run(&["man", "pages/man1"]);
    assert_eq!(run.status, 0, "{run}");
    let read = |page: &str| {
        let path = program.path("work/pages/man1").join(page);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"))
    };
    for page in ["atlatl.1", "atlatl-proxy.1", "atlatl-memory.1", "atlatl-memory-add.1"] {
        assert!(read(page).contains(".TH"), "{page}");
    }
    assert!(read("atlatl-serve.1").contains("Serve memories: recall, search, list, capture"));
    assert!(
        read("atlatl-serve.1").contains("\n.nf\nExamples:\n"),
        "examples in lines of their own"
    );
    assert!(!program.path("work/pages/man1/atlatl-help.1").exists());
}

#[test]
fn manual_pages_that_cannot_be_written_are_an_error_that_names_the_place() {
    let run = Program::new().file("work/taken", "").run(&["man", "taken/man1"]);
    assert_eq!((run.status, run.stdout.as_str()), (1, ""));
    let message = "error: cannot write manual pages into taken/man1: ";
    assert!(run.stderr.starts_with(message), "{run}");
}
