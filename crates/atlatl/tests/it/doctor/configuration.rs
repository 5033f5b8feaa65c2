//! Faults in the configuration.

use std::fs;

use super::*;

const FILE: &str = "home/.config/atlatl/config.toml";

#[test]
fn an_unknown_key_is_a_fault_and_the_line_to_edit_is_named() {
    let program = machine().file(FILE, "\n[proxy]\ntreshold_tokens = 5\n");
    let run = doctor(&program, &[]);
    let fix = fault(&run, "config", "config.toml:3");
    assert_eq!(fix, format!("edit [DIR]/{FILE}, line 3: did you mean `proxy.threshold_tokens`?"));
    // Checks that do not depend on the configuration still run.
    assert!(run.json()["passed"].to_string().contains("client-file"), "{run}");
    assert!(run.json()["skipped"].to_string().contains("fix the configuration first"), "{run}");
    fs::write(program.path(FILE), "\n[proxy]\nthreshold_tokens = 5000\n").unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_wrong_value_and_a_file_that_is_none_are_faults() {
    let variable = "ATLATL_PROXY__THRESHOLD_TOKENS";
    let run = doctor(&machine().variable(variable, "many"), &[]);
    assert!(fault(&run, "config", variable).starts_with(&format!("unset {variable}")), "{run}");
    // A directory instead of the file, which not even root can read.
    let program = machine().file(&format!("{FILE}/x"), "");
    let fix = fault(&doctor(&program, &[]), "config", FILE);
    assert_eq!(fix, format!("make [DIR]/{FILE} readable, or remove it"));
    fs::remove_dir_all(program.path(FILE)).unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_path_map_that_no_result_is_under_is_a_warning() {
    let text = "[proxy.path_map]\nfrom = \"/elsewhere\"\nto = \"/mnt\"\n";
    let program = machine().file(FILE, text);
    let fix = warning(&doctor(&program, &[]), "path-map", "proxy.path_map.from");
    assert_eq!(fix, format!("in [DIR]/{FILE}, line 2, write from = \"[DIR]/tmp\""));
    let tmp = program.path("tmp");
    fs::write(program.path(FILE), text.replace("/elsewhere", tmp.to_str().unwrap())).unwrap();
    is_well(&doctor(&program, &[]));
}
