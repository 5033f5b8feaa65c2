//! Models that are installed from directories, package files and a registry, listed and removed.

use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use atlatl_memory::embed::{ModelDescription, ModelManifest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};
use tar::{EntryType, Header};
use testkit::http::{HttpServer, reply, reply_json};
use testkit::static_model;
use testkit::tool::require_model;

use crate::embedding_model::{MODELS, minilm};
use crate::program::{Program, Run};

/// A small model with the name `compass`, as the files of a package.
fn package() -> Vec<(&'static str, Vec<u8>)> {
    let directory = tempfile::tempdir().unwrap();
    static_model::write(directory.path(), &static_model::ROWS);
    let about = ModelDescription {
        name: "compass".to_owned(),
        license: "MIT".to_owned(),
        source: String::new(),
        fusion: None,
    };
    let manifest = ModelManifest::describe(directory.path(), &about).unwrap();
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    vec![
        ("package/package.json", b"{}".to_vec()),
        ("package/models/compass/LICENSE", b"MIT".to_vec()),
        ("package/models/compass/model.json", manifest.to_json().into_bytes()),
        ("package/models/compass/table.safetensors", read("table.safetensors")),
        ("package/models/compass/tokenizer.json", read("tokenizer.json")),
        ("package/models/compass/run.sh", b"#!/bin/sh".to_vec()),
    ]
}

/// A compressed tar archive of these files and, if there is a target, a link.
fn tgz(files: &[(&str, Vec<u8>)], link: Option<&str>) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = Header::new_gnu();
        // The library's own setter refuses `..`.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        archive.append(&header, &content[..]).unwrap();
    }
    if let Some(target) = link {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "package/models/compass/config.json", target).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A zip archive of these files.
fn wheel(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        archive.start_file(*name, options).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn install(program: &Program, source: &str, more: &[&str]) -> Run {
    program.run(&[&["memory", "model", "install", source], more].concat())
}

fn list(program: &Program) -> Vec<Value> {
    program.run(&["memory", "model", "list", "--json"]).json().as_array().unwrap().clone()
}

/// The names in the directory of models, except for the lock.
fn entries(program: &Program) -> Vec<PathBuf> {
    let entries = fs::read_dir(program.path(MODELS)).into_iter().flatten().flatten();
    let names = entries.map(|entry| PathBuf::from(entry.file_name()));
    names.filter(|name| name != Path::new(".lock")).collect()
}

#[test]
fn a_model_is_installed_from_a_directory_listed_used_and_removed() {
    let program = Program::new();
    let empty = program.run(&["memory", "model", "list"]);
    assert_eq!(empty.stderr.lines().count(), 1, "{empty}");
    let run = install(&program, minilm().to_str().unwrap(), &["--json"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run}");
    let expected = json!({
        "name": "minilm", "dimensions": 384, "bytes": run.json()["bytes"],
        "license": "Apache-2.0", "directory": "[DIR]/home/.local/share/atlatl/models/minilm",
        "used": true,
    });
    assert_eq!(run.json(), expected);
    let listed = program.run(&["memory", "model", "list", "--json"]);
    assert_eq!(listed.json(), json!([expected]), "{listed}");
    for (file, mode) in [("", 0o40_700), ("/model.gguf", 0o100_600), ("/1_Pooling", 0o40_700)] {
        let path = program.path(&format!("{MODELS}/minilm{file}"));
        assert_eq!(fs::metadata(path).unwrap().permissions().mode(), mode, "{file}");
    }
    // The same model again replaces itself.
    assert_eq!(install(&program, minilm().to_str().unwrap(), &[]).status, 0);
    assert_eq!(entries(&program), [Path::new("minilm")]);
    let removed = program.run(&["memory", "model", "remove", "minilm"]);
    assert_eq!((removed.status, entries(&program)), (0, Vec::new()), "{removed}");
    let again = program.run(&["memory", "model", "remove", "minilm"]);
    assert_eq!(again.status, 1, "{again}");
    assert!(again.stderr.contains("hint: atlatl memory model list"), "{again}");
}

#[test]
fn a_directory_without_a_manifest_gets_one() {
    let program = Program::new();
    let run = install(&program, require_model("wordllama").to_str().unwrap(), &[]);
    assert_eq!(run.status, 0, "{run}");
    let model = list(&program).remove(0);
    assert_eq!((&model["name"], &model["dimensions"]), (&json!("wordllama"), &json!(256)));
    let manifest = ModelManifest::read(&program.path(MODELS).join("wordllama")).unwrap().unwrap();
    manifest.verify(&program.path(MODELS).join("wordllama")).unwrap();
}

#[test]
fn a_model_is_installed_from_package_files() {
    let files = package();
    for archive in [tgz(&files, None), wheel(&files)] {
        let program = Program::new().file("work/package", archive);
        let run = install(&program, "package", &[]);
        assert_eq!(run.status, 0, "{run}");
        assert!(run.stdout.starts_with("installed compass (2 dimensions, "), "{run}");
        let installed = program.path(MODELS).join("compass");
        let mut names: Vec<_> = fs::read_dir(&installed)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["LICENSE", "model.json", "table.safetensors", "tokenizer.json"]);
        let unused = ["--set", "memory.embedder=none"];
        let run = install(&program, "package", &unused);
        assert!(run.stderr.contains("memory.embedder is \"none\""), "{run}");
    }
}

#[test]
fn a_model_that_a_package_brings_is_used_and_not_removed() {
    // On the file system of the program, which is large and therefore linked.
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = root.path().canonicalize().unwrap();
    for (program, prefix) in [
        ("archive/atlatl", "archive"),
        ("bundle/server/atlatl", "bundle/server"),
        ("wheel/bin/atlatl", "wheel"),
        ("node_modules/atlatl-lro-linux-x64/bin/atlatl", "node_modules/atlatl-model-minilm"),
    ] {
        let (executable, model) =
            (root.join(program), root.join(prefix).join("share/atlatl/models/compass"));
        fs::create_dir_all(executable.parent().unwrap()).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_atlatl"), &executable).unwrap();
        fs::create_dir_all(&model).unwrap();
        for (name, content) in package() {
            if let Some(name) = name.strip_prefix("package/models/compass/") {
                fs::write(model.join(name), content).unwrap();
            }
        }
        // As npm and pipx link programs.
        let link = root.join(prefix).join("link");
        symlink(&executable, &link).unwrap();
        let program = Program::new().executable(&link);
        let listed = list(&program);
        assert_eq!(listed.len(), 1, "{prefix}");
        let expected = (&json!(model), &json!(true));
        assert_eq!((&listed[0]["directory"], &listed[0]["used"]), expected);
        let removed = program.run(&["memory", "model", "remove", "compass"]);
        assert!(removed.stderr.contains("the model belongs to a package"), "{removed}");
        assert!(model.join("model.json").is_file());

        // A model that the user installs is preferred.
        let program = program.file("work/package.tgz", tgz(&package(), None));
        assert_eq!(install(&program, "package.tgz", &[]).status, 0);
        let used = list(&program).iter().map(|model| model["used"].clone()).collect::<Value>();
        assert_eq!(used, json!([true, false]), "{prefix}");
    }
    // As for a program in `~/.local/bin`.
    let data = root.join("wheel/share").display().to_string();
    let program = Program::new().executable(root.join("wheel/bin/atlatl"));
    assert_eq!(list(&program.variable("XDG_DATA_HOME", &data)).len(), 1);
}

#[test]
fn a_package_that_is_not_sound_leaves_nothing() {
    let files = package();
    let with = |name: &'static str, content: &[u8]| {
        let mut files = files.clone();
        files.retain(|(other, _)| *other != name);
        files.push((name, content.to_vec()));
        files
    };
    let weights = "package/models/compass/table.safetensors";
    let mut other = files.iter().find(|(name, _)| *name == weights).unwrap().1.clone();
    *other.last_mut().unwrap() ^= 1;
    let whole = tgz(&files, None);
    for (archive, why) in [
        (tgz(&with("package/../../x", b"x"), None), "contains the path package/../../x"),
        (tgz(&files, Some("/etc/passwd")), "no regular file"),
        (tgz(&with(weights, &other), None), "do not have the digest"),
        (tgz(&with(weights, b"short"), None), "bytes instead of"),
        (tgz(&with("package/models/other/model.json", b"{}"), None), "one model"),
        (tgz(&files[..2], None), "one model"),
        (wheel(&with("/etc/x", b"x")), "contains the path /etc/x"),
        (whole[..whole.len() / 2].to_vec(), "work/package: "),
        (b"neither".to_vec(), "neither a .tgz nor a .whl file"),
    ] {
        let program = Program::new().file("work/package", archive);
        let path = program.path("work/package").display().to_string();
        let run = install(&program, &path, &[]);
        assert_eq!(run.status, 1, "{run}");
        assert!(run.stderr.contains(why), "{why}: {run}");
        assert!(!run.stderr.contains(".install-"), "{run}");
        assert_eq!(entries(&program), Vec::<PathBuf>::new(), "{why}");
    }
}

#[test]
fn what_an_interrupted_installation_left_is_removed_and_another_one_is_not_disturbed() {
    let program = Program::new()
        .file(&format!("{MODELS}/.install-killed/model/model.gguf"), "half")
        .file("work/package.tgz", tgz(&package(), None));
    assert!(list(&program).is_empty());
    assert_eq!(install(&program, "package.tgz", &[]).status, 0);
    assert_eq!(entries(&program), [Path::new("compass")]);
    let lock = File::create(program.path(MODELS).join(".lock")).unwrap();
    lock.lock().unwrap();
    let run = program.run(&["memory", "model", "remove", "compass"]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stderr.contains("another process changes the models"), "{run}");
}

#[test]
fn a_package_of_a_registry_is_checked_against_its_digest() {
    let package = tgz(&package(), None);
    let digest = STANDARD.encode(Sha512::digest(&package));
    for (integrity, status) in [
        (json!(format!("sha512-{digest}")), 0),
        (json!(format!("sha512-{}", STANDARD.encode([0_u8; 64]))), 1),
        (Value::Null, 1),
    ] {
        let tarball = package.clone();
        let registry = HttpServer::start(move |request, stream| match request.path() {
            "/@atlatl%2fmodel/latest" => {
                let host = request.header("host").unwrap_or_default();
                let dist = json!({"tarball": format!("http://{host}/m.tgz"),
                    "integrity": integrity});
                reply_json(stream, "200 OK", &json!({"dist": dist}))
            }
            "/m.tgz" => reply(stream, "200 OK", &[], &tarball),
            _ => reply(stream, "404 Not Found", &[], b""),
        });
        let program = Program::new();
        let url = registry.url("");
        let run = install(&program, "@atlatl/model", &["--registry", &url]);
        assert_eq!((run.status, list(&program).len()), (status, usize::from(status == 0)), "{run}");
        let missing = install(&program, "other", &["--registry", &url]);
        assert!(missing.stderr.contains("status 404"), "{missing}");
    }
    let program = Program::new();
    let plain = install(&program, "model", &["--registry", "http://registry.example"]);
    assert!(plain.stderr.contains("expected a URL with https://"), "{plain}");
    let none = install(&program, "atlatl-model-minilm", &[]);
    assert_eq!(none.status, 1, "{none}");
    assert!(
        none.stderr.contains("No such file") && none.stderr.contains("pass the file"),
        "{none}"
    );
}
