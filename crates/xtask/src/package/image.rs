//! The container image: an OCI image layout in a tar archive. It has the program, the embedding model, CA
//! certificates and licences, and nothing else. Its bytes depend on its contents alone.

mod layout;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::{Value, json};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use self::layout::{FileTree, Image};
use super::release::{LICENSE_FILES, Platform, Release};
use crate::repository::Repository;

/// The user of the image. By number, so that a platform can verify that it is not root.
const USER: &str = "65532:65532";
/// Without a home directory: the program writes to `/tmp` only.
const PASSWD: &str =
    "root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/nonexistent:/nonexistent\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
/// Without this file, a program with a static glibc asks DNS for the names in `/etc/hosts`.
const NSSWITCH: &str = "hosts: files dns\n";
/// Where rustls-native-certs looks first.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// The crate with Mozilla's CA certificates.
const CERTIFICATES_CRATE: &str = "webpki-root-certs";
/// What platforms mount, which cannot create directories in a read-only root file system.
const MOUNT_POINTS: [&str; 6] =
    ["dev", "etc/atlatl", "proc", "run/secrets", "sys", "var/run/secrets"];

/// Makes `atlatl-VERSION-PLATFORM.oci.tar` and the list of what is in the program. Only Linux has images.
pub(super) fn make_image(
    repository: &Repository,
    release: &Release,
    stage: &Path,
    out: &Path,
) -> Result<()> {
    if release.platform.os != "linux" {
        return Ok(());
    }
    let commit = Commit::read(repository)?;
    let sbom = sbom::make_sbom(repository, &release.target, commit.seconds, stage)?;
    fs::write(out.join(format!("{}.cdx.json", release.file_stem())), &sbom)?;

    let mut program = FileTree::default();
    let binary = fs::read(&release.program).context("the program")?;
    program.insert("usr/bin/atlatl", 0o755, binary);
    program.insert("usr/share/doc/atlatl/sbom.cdx.json", 0o644, sbom.into_bytes());
    for file in LICENSE_FILES {
        let text = repository.read(file)?;
        program.insert(&format!("usr/share/doc/atlatl/{file}"), 0o644, text.into_bytes());
    }
    let mut base = base_files(&license_of(repository, CERTIFICATES_CRATE)?);
    base.insert_dir("usr/share", &release.share)?;

    let image = Image {
        // What rarely changes comes first: a new version downloads the second layer only.
        layers: vec![base, program],
        architecture: architecture(release.platform),
        created: commit.time()?,
        tag: release.version.clone(),
        config: process(),
        labels: labels(repository, release, &commit)?,
    };
    let file = out.join(format!("{}.oci.tar", release.file_stem()));
    fs::write(file, image.to_archive()?)?;
    Ok(())
}

/// Everything but the program and the model.
fn base_files(certificates_license: &str) -> FileTree {
    let mut base = FileTree::default();
    for dir in MOUNT_POINTS {
        base.insert_empty_dir(dir, 0o755);
    }
    base.insert_empty_dir("tmp", 0o1777);
    base.insert("etc/passwd", 0o644, PASSWD.into());
    base.insert("etc/group", 0o644, GROUP.into());
    base.insert("etc/nsswitch.conf", 0o644, NSSWITCH.into());
    base.insert(CERTIFICATES, 0o644, certificates().into_bytes());
    let license = format!("usr/share/doc/{CERTIFICATES_CRATE}/LICENSE");
    base.insert(&license, 0o644, certificates_license.into());
    base
}

/// Mozilla's CA certificates in PEM format.
fn certificates() -> String {
    const LINE_LEN: usize = 64;
    let mut pem = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = STANDARD.encode(certificate);
        while rest.len() > LINE_LEN {
            let next = rest.split_off(LINE_LEN);
            pem.push_str(&rest);
            pem.push('\n');
            rest = next;
        }
        pem.push_str(&rest);
        pem.push_str("\n-----END CERTIFICATE-----\n");
    }
    pem
}

/// The licence of a crate that xtask depends on, from where cargo unpacked it.
fn license_of(repository: &Repository, name: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
    }
    let metadata: Metadata =
        repository.cargo_json(&["metadata", "--format-version", "1", "--locked"])?;
    let package = metadata.packages.into_iter().find(|package| package.name == name);
    let package = package.with_context(|| format!("cargo metadata does not list {name}"))?;
    let file = package.manifest_path.with_file_name("LICENSE");
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// How a container runs the program.
fn process() -> Value {
    json!({
        "User": USER,
        "ExposedPorts": {"7171/tcp": {}, "7190/tcp": {}},
        "Env": ["PATH=/usr/bin"],
        "Entrypoint": ["/usr/bin/atlatl"],
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
    })
}

fn labels(repository: &Repository, release: &Release, commit: &Commit) -> Result<Value> {
    let about = release.fill_in(repository, "packages/npm/package.json")?;
    let mut labels = json!({
        "org.opencontainers.image.title": "atlatl",
        "org.opencontainers.image.description": about["description"],
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.revision": commit.id,
        "org.opencontainers.image.created": commit.time()?,
        // The program, the embedding model, and the CA certificates.
        "org.opencontainers.image.licenses":
            "(MIT OR Apache-2.0) AND Apache-2.0 AND CDLA-Permissive-2.0",
    });
    if let Some(url) = &release.repository {
        labels["org.opencontainers.image.source"] = json!(url);
    }
    Ok(labels)
}

/// The processor as images call it.
fn architecture(platform: Platform) -> &'static str {
    if platform.arch == "aarch64" { "arm64" } else { "amd64" }
}

/// The commit that is packed. Its time is the image's, so that two builds are the same.
#[derive(Debug)]
struct Commit {
    id: String,
    seconds: i64,
}

impl Commit {
    fn read(repository: &Repository) -> Result<Self> {
        let line = repository.git(&["log", "-1", "--format=%H %ct"])?;
        let (id, seconds) = line.trim().split_once(' ').context("git log: no commit")?;
        Ok(Self { id: id.to_owned(), seconds: seconds.parse().context("git log: no time")? })
    }

    fn time(&self) -> Result<String> {
        let time = DateTime::from_timestamp(self.seconds, 0).context("the time of the commit")?;
        Ok(time.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::release::tests::release;
    use super::layout::tests::{digest_of, entries_of, unpack};
    use super::*;

    fn image() -> Image {
        let commit = Commit { id: "c0ffee".to_owned(), seconds: 1_795_126_287 };
        let mut program = FileTree::default();
        program.insert("usr/bin/atlatl", 0o755, b"program".to_vec());
        Image {
            layers: vec![base_files("the licence of the data"), program],
            architecture: architecture(release().platform),
            created: commit.time().unwrap(),
            tag: "1.2.3".to_owned(),
            config: process(),
            labels: labels(&Repository::open().unwrap(), &release(), &commit).unwrap(),
        }
    }

    /// The document of this digest.
    fn document(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(digest_of(bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn g51_two_builds_of_the_image_are_byte_identical() {
        let one = image().to_archive().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(one == image().to_archive().unwrap(), "another image a second later");
    }

    #[test]
    fn g51_the_image_runs_as_a_number_and_has_nothing_but_the_program_and_its_data() {
        let files = unpack(&image().to_archive().unwrap());
        assert_eq!(files["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let tag = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
        assert_eq!(tag, "1.2.3");
        let manifest = document(&files, &index["manifests"][0]);
        let config = document(&files, &manifest["config"]);
        assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/atlatl"]));
        assert_eq!(config["created"], "2026-11-19T22:11:27Z");
        for labels in [&config["config"]["Labels"], &manifest["annotations"]] {
            assert_eq!(labels["org.opencontainers.image.version"], "1.2.3");
            assert_eq!(labels["org.opencontainers.image.revision"], "c0ffee");
            let source = &labels["org.opencontainers.image.source"];
            assert_eq!(source, "https://example.org/atlatl");
        }

        let mut all = BTreeMap::new();
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), config["rootfs"]["diff_ids"].as_array().unwrap().len());
        for (layer, diff_id) in layers.iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap())
        {
            let digest = layer["digest"].as_str().unwrap().replace(':', "/");
            let (layer, plain) = entries_of(&files[&format!("blobs/{digest}")]);
            assert_eq!(&digest_of(&plain), diff_id.as_str().unwrap());
            all.extend(layer);
        }
        let programs: Vec<_> =
            all.iter().filter(|(path, mode)| !path.ends_with('/') && **mode & 0o111 != 0).collect();
        assert_eq!(programs, [(&"usr/bin/atlatl".to_owned(), &0o755)], "no shell");
        assert!(all.values().all(|mode| mode & 0o6000 == 0), "{all:?}");
        assert_eq!(all["tmp/"], 0o1777);
        for mounted in ["proc/", "dev/", "etc/atlatl/", "run/secrets/"] {
            assert_eq!(all[mounted], 0o755, "{mounted}");
        }
        let writable = all.iter().filter(|(_, mode)| **mode & 0o022 != 0).map(|(path, _)| path);
        assert_eq!(writable.collect::<Vec<_>>(), ["tmp/"]);
    }

    #[test]
    fn g51_the_image_trusts_the_authorities_of_the_crate_in_the_lock_file() {
        let pem = certificates();
        let found: Vec<Vec<u8>> = pem
            .split("-----BEGIN CERTIFICATE-----")
            .skip(1)
            .map(|one| {
                let (body, _) = one.split_once("-----END CERTIFICATE-----").unwrap();
                assert!(body.lines().all(|line| line.len() <= 64));
                STANDARD.decode(body.replace('\n', "")).unwrap()
            })
            .collect();
        assert!(found.len() > 50, "{}", found.len());
        let expected: Vec<Vec<u8>> = TLS_SERVER_ROOT_CERTS.iter().map(|one| one.to_vec()).collect();
        assert!(found == expected);
    }
}
