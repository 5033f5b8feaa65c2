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
    stores it, returns a short descriptor instead, and runs queries on it.

    Usage: atlatl [OPTIONS] [COMMAND]

    Commands:
      offload      Store a tool result if it is large, and print its descriptor
      extract      Query a stored result: recipe, jq, SQL, search, range
      run          Run a command, and store its output if it is large
      install      Put the servers of your MCP clients behind the proxy
      uninstall    Restore your clients' configuration
      hook         Replace large output of an agent's tools by a descriptor
      off          Pause hooks and `atlatl run`: output passes unchanged
      on           End the pause of `atlatl off`
      doctor       Diagnose problems on this machine and suggest a fix for each
      proxy        Run an MCP server behind the proxy and store its large results
      try          Call a tool of an MCP server once, and show what it saves
      serve        Serve memories: recall, search, list, capture
      tools        Serve the extraction tools alone, for all proxies of a project
      login        Log in to a remote MCP server
      logout       Log out of a remote MCP server
      whoami       List the servers that you are logged in to
      results      List, show, keep and remove stored results
      stats        Show the tokens that offloading saved, net of its cost
      watch        Print what is stored, queried and refused, as it happens
      memory       Add, search, import and export your memories
      db           Manage the PostgreSQL database
      tenants      Create, list, erase and remove the tenants of a team's database
      keys         Create, list and revoke the API keys of tenants
      access       Explain what access tokens give access to
      completions  Print a shell completion script
      man          Write the manual pages, one per command
      trust        Allow a project file to set every configuration key
      config       Show, set and check the configuration
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Global options:
          --json
              Print JSON, for programs

      -q, --quiet
              Print no notes, and no hints without an error

      -v, --verbose
              Also print which configuration applies and how long
              the command takes

          --config <FILE>
              Read only this configuration file

          --set <KEY=VALUE>
              Set a configuration key, overriding files and
              variables: --set prompt.offload.enabled=false

    Data goes to standard output, everything else to standard error.

    Exit status:
      0  success
      1  failure
      2  invalid command line or configuration
    --- stderr
    ");
    insta::assert_snapshot!(Program::new().run(&["config", "--help"]), @"
    status: 0
    --- stdout
    Show, set and check the configuration

    Usage: atlatl config [OPTIONS] <COMMAND>

    Commands:
      show    Print every key with its effective value
      get     Print the effective value of a key
      set     Set a key in your configuration file
      schema  Print the JSON Schema of the configuration file
      check   Check the configuration and print all errors
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
          --json             Print JSON, for programs
      -q, --quiet            Print no notes, and no hints without an error
      -v, --verbose          Also print which configuration applies and how long
                             the command takes
          --config <FILE>    Read only this configuration file
          --set <KEY=VALUE>  Set a configuration key, overriding files and
                             variables: --set prompt.offload.enabled=false
    --- stderr
    ");
}

#[test]
fn help_says_how_to_ask_about_a_result() {
    insta::assert_snapshot!(Program::new().run(&["offload", "--help"]), @"
    status: 0
    --- stdout
    Store a tool result if it is large, and print its descriptor

    Reads an MCP tool result (`CallToolResult`), JSON, JSONL, CSV, TSV or text. A
    small result is printed unchanged. A large result is stored, and its descriptor
    is printed: the object that a client receives, indented on a terminal.
    With --dry-run nothing is stored; the command prints the detected format, the
    token count, the decision and its reason.

    Usage: atlatl offload [OPTIONS] [FILE]

    Arguments:
      [FILE]
              File with the result; - is standard input, the default

    Options:
          --dry-run
              Print the decision and its reason; store nothing

          --tool <NAME>
              Name of the tool, for its policy and threshold
              [default: `recall_memories` for memories]

          --query <TEXT>
              Query that produced the result, for its header

          --scope <TEXT>
              Store the result in a separate scope of this directory
              (results of memory operations share one scope)

      -h, --help
              Print help (see a summary with '-h')

    Global options:
          --json
              Print JSON, for programs

      -q, --quiet
              Print no notes, and no hints without an error

      -v, --verbose
              Also print which configuration applies and how long
              the command takes

          --config <FILE>
              Read only this configuration file

          --set <KEY=VALUE>
              Set a configuration key, overriding files and
              variables: --set prompt.offload.enabled=false

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

      tip: some similar subcommands exist: 'on', 'config'

    Usage: atlatl [OPTIONS] [COMMAND]

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
