//! The implementations satisfy the contract.

use lro_spool::{DirOnDemand, DirOptions, DirSpool, MemorySpool, Scope, contract};

#[test]
fn the_memory_spool_keeps_the_contract() {
    contract::run(|quota| Box::new(MemorySpool::new(quota)));
}

#[test]
fn a_private_directory_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    contract::run(|quota| {
        let dir = tempfile::tempdir_in(&home).unwrap().keep().join("spool");
        Box::new(DirSpool::open(&dir, DirOptions::private().quota(quota)).unwrap())
    });
}

#[test]
fn a_scope_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    let scope = Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop", b""]);
    contract::run(|quota| {
        let dir = tempfile::tempdir_in(&home).unwrap().keep().join("spool");
        Box::new(DirSpool::open(&dir, DirOptions::private().scope(scope).quota(quota)).unwrap())
    });
}

#[test]
fn a_flat_directory_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    contract::run(|quota| {
        let dir = tempfile::tempdir_in(&home).unwrap().keep();
        Box::new(DirSpool::open(&dir, DirOptions::flat().quota(quota)).unwrap())
    });
}

#[test]
fn a_directory_on_demand_keeps_the_contract() {
    let home = tempfile::tempdir().unwrap();
    contract::run(|quota| {
        let dir = tempfile::tempdir_in(&home).unwrap().keep().join("spool");
        Box::new(DirOnDemand::new(dir, DirOptions::private().quota(quota)))
    });
}
