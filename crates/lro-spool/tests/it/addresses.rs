//! References and paths: which addresses lead to a result.

use std::os::unix::fs::symlink;

use lro_core::ResultId;
use lro_spool::{
    Address, DirOnDemand, DirOptions, DirSpool, Foreign, Quota, Scope, Spool, SpoolError,
};
use proptest::prelude::*;

use crate::fixture::{at, cases, flat, id, private, put, whole};

fn opened(spool: &dyn Spool, text: &str) -> Result<(), SpoolError> {
    let address: Address = text.parse().expect("an address");
    spool.open(&address, at(0)).map(drop)
}

#[test]
fn v5_the_path_a_descriptor_showed_is_accepted_and_foreign_ones_are_not() {
    let home = tempfile::tempdir().unwrap();
    let (spool, other) = (home.path().join("spool"), home.path().join("spool2"));
    let (spool, sibling) = (private(&spool), private(&other));
    let ours = put(&spool, id(1), b"ours").unwrap();
    let theirs = put(&sibling, id(2), b"theirs").unwrap();
    opened(&spool, ours.path.as_ref().unwrap().to_str().unwrap()).unwrap();
    let foreign = opened(&spool, theirs.path.as_ref().unwrap().to_str().unwrap());
    assert!(
        matches!(foreign, Err(SpoolError::NotOurs { why: Foreign::Elsewhere, .. })),
        "{foreign:?}"
    );
    let up = format!("{}/../spool2/{}", spool.path().display(), theirs.name);
    assert!(up.parse::<Address>().is_err());
}

#[test]
fn v5_a_link_with_our_name_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let (spool, sibling) = (private(&home.path().join("a")), private(&home.path().join("b")));
    let theirs = put(&sibling, id(2), b"theirs").unwrap();
    let path = theirs.path.unwrap();
    let beside = |name: &str| spool.path().join(name);
    symlink(&path, beside(&theirs.name.to_string())).unwrap();
    let sidecar = format!("{}.meta.json", path.display());
    symlink(&sidecar, beside(&format!("{}.meta.json", theirs.name))).unwrap();
    for text in [theirs.name.to_string(), id(2).reference().to_string()] {
        let refused = opened(&spool, &text);
        assert!(
            matches!(refused, Err(SpoolError::NotOurs { why: Foreign::WrongKind, .. })),
            "{text}: {refused:?}"
        );
    }
    assert!(spool.list().unwrap().is_empty());
}

#[test]
fn v5_a_linked_spool_directory_is_refused_and_a_linked_temporary_directory_is_used() {
    let home = tempfile::tempdir().unwrap();
    let (real, link) = (home.path().join("real"), home.path().join("link"));
    drop(private(&real));
    symlink(&real, &link).unwrap();
    let refused = DirSpool::open(&link, DirOptions::private());
    assert!(
        matches!(refused, Err(SpoolError::NotOurs { why: Foreign::WrongKind, .. })),
        "{refused:?}"
    );
    let spool = flat(&link);
    let listed = put(&spool, id(1), b"x").unwrap();
    assert!(listed.path.unwrap().starts_with(&link), "the path is shown as it was given");
}

#[test]
fn f26_another_scopes_reference_is_not_found() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    let open = |project: &str| {
        let scope = Scope::from_fields([b"1000".as_slice(), project.as_bytes()]);
        DirSpool::open(&root, DirOptions::private().scope(scope).quota(Quota::NONE)).unwrap()
    };
    let (shop, blog) = (open("/home/ann/shop"), open("/home/ann/blog"));
    let listed = put(&shop, id(1), b"of the shop").unwrap();
    for text in [listed.id().reference().to_string(), listed.name.to_string()] {
        opened(&shop, &text).unwrap();
        let other = opened(&blog, &text);
        assert!(matches!(other, Err(SpoolError::NotFound { .. })), "{other:?}");
        let removed = blog.remove(&text.parse().unwrap());
        assert!(matches!(removed, Err(SpoolError::NotFound { .. })), "{removed:?}");
    }
    let path = listed.path.unwrap();
    let other = opened(&blog, path.to_str().unwrap());
    assert!(matches!(other, Err(SpoolError::NotOurs { why: Foreign::Elsewhere, .. })), "{other:?}");
    assert!(blog.list().unwrap().is_empty());
    assert_eq!(whole(&shop, id(1)), b"of the shop", "and stays where it is");
}

#[test]
fn f28_references_survive_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    let open = || {
        let scope = Scope::from_fields([b"1000".as_slice(), b"/home/ann/shop"]);
        DirSpool::open(&root, DirOptions::private().scope(scope).quota(Quota::NONE)).unwrap()
    };
    let listed = put(&open(), id(1), b"[{\"a\": 1}, {\"a\": 2}]").unwrap();
    let restarted = open();
    assert_eq!(restarted.list().unwrap(), [listed]);
    assert_eq!(whole(&restarted, id(1)), b"[{\"a\":1},{\"a\":2}]");
}

#[test]
fn a_relative_directory_is_refused() {
    for options in [DirOptions::private(), DirOptions::flat()] {
        let refused = DirSpool::open("spool".as_ref(), options);
        assert!(matches!(refused, Err(SpoolError::Io { op: "open", .. })), "{refused:?}");
    }
}

#[test]
fn f28_a_directory_that_was_removed_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let spool = DirOnDemand::new(path.clone(), DirOptions::private().quota(Quota::NONE));
    assert!(!path.exists(), "nothing is made before it is needed");
    put(&spool, id(1), b"one").unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    put(&spool, id(2), b"two").unwrap();
    assert_eq!(whole(&spool, id(2)), b"two");
    assert!(matches!(spool.open(&id(1).into(), at(0)).map(drop), Err(SpoolError::NotFound { .. })));
}

/// Words of which addresses consist, and others.
fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "lro:",
        "atlatl-",
        "recall",
        "-",
        "/",
        "//",
        "/tmp",
        "..",
        ".",
        ".jsonl",
        ".txt",
        ".meta.json",
        "\u{e9}",
        "\0",
    ];
    let id = || (any::<u64>(), any::<u128>()).prop_map(|(ms, bits)| ResultId::new(ms, bits));
    prop_oneof![
        3 => id().prop_map(|id| id.to_string()),
        1 => id().prop_map(|id| id.to_string().to_lowercase()),
        3 => id().prop_map(|id| format!("atlatl-recall-{id}.json")),
        6 => proptest::sample::select(WORDS).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
    ]
}

#[test]
fn prop_an_address_is_written_as_it_was_given() {
    let cases = u32::try_from(cases(2000)).unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(words in prop::collection::vec(word(), 0..7))| {
        let text = words.concat();
        if let Ok(address) = text.parse::<Address>() {
            let written = address.to_string();
            prop_assert_eq!(written.parse(), Ok(address.clone()));
            let expected = match &address {
                Address::Id(id) => id.reference().to_string(),
                // Where there are more slashes before the name than one, one is left out.
                Address::Path { name, .. } => match text.strip_suffix(&format!("//{name}")) {
                    Some(rest) => format!("{rest}/{name}"),
                    None => text,
                },
                _ => text,
            };
            prop_assert_eq!(written, expected);
        }
    });
}
