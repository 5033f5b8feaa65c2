//! The built program, seen from outside: exit status, standard output, standard error.

#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod check;
mod decision;
mod deliver;
mod extract;
mod layers;
mod offload;
mod program;
mod proxied;
mod proxy;
mod proxy_life;
mod reference;
mod results;
mod schema;
mod show;
mod tools;
mod usage;
