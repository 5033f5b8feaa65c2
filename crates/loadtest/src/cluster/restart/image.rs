//! A container image: an OCI layout in a tar archive, whose digests are verified while it is unpacked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const SBOM_SUFFIX: &str = ".cdx.json";
/// The largest archive, and the largest layer without compression.
const MAX_LEN: u64 = 2 << 30;
const STOP_SIGNAL: &str = "SIGTERM";

/// A reference to a blob.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: usize,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct ImageConfig {
    config: ProcessConfig,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// How a container runs the program.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ProcessConfig {
    user: String,
    #[serde(default)]
    pub(super) env: Vec<String>,
    pub(super) entrypoint: Vec<String>,
    #[serde(default)]
    pub(super) working_dir: String,
    #[serde(default)]
    stop_signal: String,
}

/// Figures of an image for the report.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ImageFacts {
    pub(super) archive: String,
    pub(super) compressed_bytes: u64,
    pub(super) unpacked_bytes: u64,
    pub(super) files: u64,
    /// The user of the configuration.
    pub(super) user: String,
    pub(super) entrypoint: Vec<String>,
    /// The components that the SBOM in the image lists.
    pub(super) sbom_components: u64,
}

/// An image with its files.
#[derive(Debug)]
pub(super) struct UnpackedImage {
    pub(super) process: ProcessConfig,
    /// User and group of the program.
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) facts: ImageFacts,
}

impl UnpackedImage {
    /// Unpacks the archive into the new directory `rootfs`.
    pub(super) fn unpack(archive: &Path, rootfs: &Path) -> Result<Self> {
        let len = fs::metadata(archive)?.len();
        ensure!(len <= MAX_LEN, "it is larger than {MAX_LEN} bytes");
        let blobs = Blobs::read(BufReader::new(File::open(archive)?))?;
        let index: Index = parse(blobs.file("index.json")?).context("index.json")?;
        let [manifest] = &*index.manifests else {
            bail!("it has {} images instead of one", index.manifests.len());
        };
        let manifest: Manifest = parse(blobs.get(manifest)?).context("the manifest")?;
        let config: ImageConfig = parse(blobs.get(&manifest.config)?).context("configuration")?;
        let (process, diff_ids) = (config.config, config.rootfs.diff_ids);
        ensure!(diff_ids.len() == manifest.layers.len(), "layers without a digest of their files");
        let (uid, gid) = parse_user(&process.user)?;
        let signal = &process.stop_signal;
        ensure!(signal.is_empty() || signal == STOP_SIGNAL, "it stops by {signal}");

        let mut facts = ImageFacts {
            archive: crate::cluster::file_name(archive),
            compressed_bytes: len,
            user: process.user.clone(),
            entrypoint: process.entrypoint.clone(),
            ..ImageFacts::default()
        };
        DirBuilder::new().mode(0o755).create(rootfs).context("a directory for the files")?;
        for (layer, diff_id) in manifest.layers.iter().zip(&diff_ids) {
            let kind = &layer.media_type;
            ensure!(kind == LAYER_TYPE, "a layer of the type {kind}");
            let mut files = Vec::new();
            let decoder = GzDecoder::new(blobs.get(layer)?);
            decoder.take(MAX_LEN).read_to_end(&mut files).context(layer.digest.clone())?;
            let found = digest(&files);
            ensure!(found == *diff_id, "the files of a layer have {found} instead of {diff_id}");
            unpack_layer(&files, rootfs, &mut facts).context(layer.digest.clone())?;
        }
        Ok(Self { process, uid, gid, facts })
    }
}

/// Writes the files of a layer. Ours have files and directories only, and remove nothing.
fn unpack_layer(layer: &[u8], rootfs: &Path, facts: &mut ImageFacts) -> Result<()> {
    let mut archive = tar::Archive::new(layer);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let at = path.display();
        let kind = entry.header().entry_type();
        ensure!(kind.is_file() || kind.is_dir(), "{at}: neither a file nor a directory");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(!name.starts_with(".wh."), "{at}: removes a file of another layer");
        ensure!(entry.unpack_in(rootfs)?, "{at}: outside of the root");
        if kind.is_file() {
            facts.files += 1;
            facts.unpacked_bytes += entry.size();
        }
        if kind.is_file() && name.ends_with(SBOM_SUFFIX) {
            let sbom: Value = serde_json::from_slice(&fs::read(rootfs.join(&path))?)?;
            let components = sbom["components"].as_array().context("an SBOM without components")?;
            facts.sbom_components += components.len() as u64;
        }
    }
    Ok(())
}

/// The files of a layout by path.
#[derive(Debug)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn read(archive: impl Read) -> Result<Self> {
        let mut archive = tar::Archive::new(archive);
        let mut files = BTreeMap::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            if entry.header().entry_type().is_file() {
                let path = entry.path()?.to_string_lossy().into_owned();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).with_context(|| path.clone())?;
                files.insert(path, bytes);
            }
        }
        Ok(Self(files))
    }

    fn file(&self, path: &str) -> Result<&[u8]> {
        Ok(self.0.get(path).with_context(|| format!("it has no {path}"))?)
    }

    /// The bytes of a descriptor, which have its size and digest.
    fn get(&self, descriptor: &Descriptor) -> Result<&[u8]> {
        let Descriptor { digest: expected, size, .. } = descriptor;
        let bytes = self.file(&format!("blobs/{}", expected.replacen(':', "/", 1)))?;
        ensure!(bytes.len() == *size, "{expected} has {} bytes instead of {size}", bytes.len());
        let found = digest(bytes);
        ensure!(found == *expected, "{expected} has the digest {found}");
        Ok(bytes)
    }
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    Ok(serde_json::from_slice(json)?)
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in &Sha256::digest(bytes)[..] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// User and group, which a platform can compare with root only if they are numbers.
fn parse_user(user: &str) -> Result<(u32, u32)> {
    let numbers =
        user.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    let (uid, gid) = numbers.with_context(|| format!("the user {user:?} has no numbers"))?;
    ensure!(uid != 0 && gid != 0, "it runs as root ({user})");
    Ok((uid, gid))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    fn tar_of(files: &[(&str, u32, Vec<u8>)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, mode, bytes) in files {
            let mut header = tar::Header::new_gnu();
            let is_dir = path.ends_with('/');
            let directory = tar::EntryType::Directory;
            header.set_entry_type(if is_dir { directory } else { tar::EntryType::Regular });
            header.set_mode(*mode);
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, path, &**bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    type Damage = fn(&mut Vec<u8>);

    /// An image as a file, with the bytes of its layer changed by `damage`.
    fn archive(dir: &Path, user: &str, damage: Damage) -> std::path::PathBuf {
        let sbom = json!({"components": [{"name": "a"}, {"name": "b"}]}).to_string().into_bytes();
        let layer = tar_of(&[
            ("tmp/", 0o1777, Vec::new()),
            ("usr/", 0o755, Vec::new()),
            ("usr/atlatl", 0o755, b"program".to_vec()),
            ("usr/sbom.cdx.json", 0o644, sbom),
        ]);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&layer).unwrap();
        let mut packed = packed.finish().unwrap();
        let described = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
        let config = json!({
            "config": {"User": user, "Entrypoint": ["/usr/atlatl"], "Env": ["PATH=/usr"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "config": described("config", &config),
            "layers": [described(LAYER_TYPE, &packed)],
        });
        let manifest = manifest.to_string().into_bytes();
        let index = json!({"manifests": [described("manifest", &manifest)]});
        let blob = |bytes: &[u8]| format!("blobs/{}", digest(bytes).replace(':', "/"));
        let name = blob(&packed);
        damage(&mut packed);
        let files = tar_of(&[
            ("index.json", 0o644, index.to_string().into_bytes()),
            (&blob(&config), 0o644, config.clone()),
            (&blob(&manifest), 0o644, manifest.clone()),
            (&name, 0o644, packed),
        ]);
        let path = dir.join("image.oci.tar");
        fs::write(&path, files).unwrap();
        path
    }

    #[test]
    fn an_image_is_unpacked_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let rootfs = dir.path().join("rootfs");
        let archive = archive(dir.path(), "65532:65533", |_| {});
        let image = UnpackedImage::unpack(&archive, &rootfs).unwrap();
        assert_eq!((image.uid, image.gid), (65_532, 65_533));
        assert_eq!((image.facts.files, image.facts.sbom_components), (2, 2));
        assert_eq!(image.process.entrypoint, ["/usr/atlatl"]);
        assert_eq!(fs::read(rootfs.join("usr/atlatl")).unwrap(), b"program");
        let mode = |path| fs::metadata(rootfs.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(["tmp", "usr", "usr/atlatl"].map(mode), [0o1777, 0o755, 0o755]);
    }

    #[test]
    fn a_damaged_image_and_one_of_root_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let damages: [(&str, Damage); 5] = [
            ("65532:65532", |bytes| *bytes.last_mut().unwrap() ^= 1),
            ("65532:65532", |bytes| bytes.truncate(20)),
            ("0:0", |_| {}),
            ("nonroot", |_| {}),
            ("", |_| {}),
        ];
        for (number, (user, damage)) in damages.into_iter().enumerate() {
            let archive = archive(dir.path(), user, damage);
            let rootfs = dir.path().join(number.to_string());
            assert!(UnpackedImage::unpack(&archive, &rootfs).is_err(), "{number}");
        }
    }
}
