//! `cargo xtask package`: every package of the program, from one built binary.
//!
//! Each is packed by the tool of those who install it: the wheel by maturin, npm packages by npm,
//! the bundle by mcpb. The container image is written here, its list of crates by cargo-cyclonedx. Tools are
//! looked for on the path; `.ci/packages` installs them.

mod formats;
mod image;
mod release;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use release::Release;

use crate::output;
use crate::repository::Repository;

/// What to pack.
#[derive(Debug, clap::Args)]
pub(crate) struct PackageArgs {
    /// Path of the built program; the wheel runs cargo again, which needs the same environment
    #[arg(long, value_name = "PATH")]
    bin: PathBuf,
    /// Target triple of the program
    #[arg(long, value_name = "TRIPLE")]
    target: String,
    /// Directory with the embedding model, which `.ci/model` makes
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Namespace of the publisher in the MCP registry, such as `io.github.NAME`
    #[arg(long, value_name = "NAMESPACE", default_value = "local")]
    namespace: String,
    /// URL of the source repository; npm checks it against the publisher
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

/// Makes the packages and says how large each is.
pub(crate) fn run(repository: &Repository, args: &PackageArgs) -> Result<bool> {
    fs::create_dir_all(&args.out)?;
    let out = args.out.canonicalize()?;
    let stage = tempfile::tempdir()?;
    let release = Release::new(repository, args, stage.path())?;
    for (name, make) in [
        ("archive", formats::make_archive as Make),
        ("wheel", formats::make_wheel),
        ("npm packages", formats::make_npm_packages),
        ("bundle", formats::make_bundle),
        ("image", image::make_image),
        ("server.json", registry_entry),
    ] {
        let stage = stage.path().join(name);
        fs::create_dir(&stage)?;
        make(repository, &release, &stage, &out).with_context(|| format!("the {name}"))?;
    }
    report(&out)?;
    Ok(true)
}

/// Makes one kind of package: puts it together in the first directory, leaves it in the second.
type Make = fn(&Repository, &Release, &Path, &Path) -> Result<()>;

fn report(out: &Path) -> Result<()> {
    let mut files = fs::read_dir(out)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let size = file.metadata()?.len();
        output::line(format_args!("{size:>10}  {}", file.file_name().display()));
    }
    Ok(())
}

/// Writes `server.json`, the memory server's entry in the MCP registry.
fn registry_entry(repository: &Repository, release: &Release, _: &Path, out: &Path) -> Result<()> {
    let entry = release.fill_in(repository, "packages/registry/server.json")?;
    Ok(fs::write(out.join("server.json"), format!("{entry:#}\n"))?)
}

/// Runs a packing tool; what it says goes to stderr, since stdout is for the answer.
fn run_tool(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("starting {program}; `.ci/packages` installs it"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Copies a file of the checkout into a directory, under its own name.
fn copy_from(repository: &Repository, file: &str, dir: &Path) -> Result<()> {
    let name = Path::new(file).file_name().context("a file has a name")?;
    fs::copy(repository.path(file), dir.join(name)).with_context(|| file.to_owned())?;
    Ok(())
}
