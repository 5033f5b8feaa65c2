//! `atlatl config reference`.

use crate::program::Program;

#[test]
fn the_example_of_the_reference_is_right() {
    let reference = Program::new().run(&["config", "reference"]).stdout;
    let (_, rest) = reference.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let run = Program::new().file("work/atlatl.toml", example).run(&[
        "config",
        "check",
        "atlatl.toml",
        "--json",
    ]);
    insta::assert_snapshot!(run, @r#"
    status: 0
    --- stdout
    {
      "valid": true,
      "problems": []
    }
    --- stderr
    "#);
}

#[test]
fn the_reference_shows_defaults_variables_and_readers() {
    let run = Program::new().run(&["config", "reference"]);
    let rows = [run.lines("| `prompt.offload.output_dir`"), run.lines("| `spool.max_bytes`")];
    insta::assert_snapshot!(rows.concat().join("\n"), @r#"
    | `prompt.offload.output_dir` | text | `""` = the system's temporary directory | `ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR` | The directory that offloaded results are written to. | with trust | `offload`, `results`, `extract`, `proxy`, `tools`, `serve` |
    | `spool.max_bytes` | a whole number of at least 1 | `10737418240` (10 GiB) | `ATLATL_SPOOL__MAX_BYTES` | Maximum size of stored results in one directory, in bytes. | with trust | `offload`, `proxy`, `serve` |
    "#);
}
