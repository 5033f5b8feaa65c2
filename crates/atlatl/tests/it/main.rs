//! The built program, seen from outside: exit status, standard output, standard error.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]
#![expect(clippy::print_stderr, reason = "a long run says what it came to")]

mod browse;
mod browser;
mod canaries;
mod check;
mod completions;
mod decision;
mod deliver;
mod doctor;
#[cfg(feature = "local")]
mod embedding_model;
mod embedding_outage;
mod extract;
mod failing;
mod footprint;
mod home;
mod hook;
mod hook_fail_open;
mod hook_install;
mod inspected;
mod inspector;
mod install;
mod install_entries;
mod install_scope;
mod install_started;
mod invalid;
mod large_input;
mod layers;
mod listening;
mod local_access;
mod logged_in;
mod login;
mod memory;
mod official;
mod offload;
mod person;
mod program;
mod proxied;
mod proxy;
mod proxy_life;
mod proxy_soak;
mod questions;
mod randomness;
mod reached;
mod real_files;
mod real_results;
mod real_servers;
mod reference;
mod remote;
mod results;
mod results_dir;
mod results_open;
mod rewrite;
mod run;
mod run_lines;
mod run_signals;
mod run_terminal;
mod schema;
mod screens;
mod serve;
mod serve_http;
mod serving;
mod show;
mod stats;
mod team;
mod tools;
#[cfg(feature = "otel")]
mod traces;
mod trust;
mod try_server;
mod untrusted;
mod usage;
mod view;
