//! The reference of environment variables: those of the configuration, and the few others.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;

use super::shipped::{literals, same, sources};
use crate::atlatl::Atlatl;
use crate::markdown::Document;
use crate::repository::Repository;

/// What our own code reads by name.
const OURS: &[(&str, &str)] = &[
    (
        "HOME",
        "The home directory: the base of the three `XDG` directories below where those are not set, \
         and where `install` looks for clients' files.",
    ),
    ("XDG_CONFIG_HOME", "`atlatl/config.toml` below it is your configuration [`~/.config`]."),
    (
        "XDG_DATA_HOME",
        "`atlatl` below it holds memories and logins, private to you [`~/.local/share`].",
    ),
    (
        "XDG_STATE_HOME",
        "`atlatl` below it holds results that are no memory operations, the ledger, what `install` \
         wrote down and which project files you trust [`~/.local/state`].",
    ),
    ("PATH", "Where `atlatl doctor` looks for the programs that clients start."),
    ("TERM", "`dumb` or not set: no colours, and `atlatl results show` prints as in a pipe."),
    ("VISUAL", "The editor of `atlatl memory edit`."),
    ("EDITOR", "The same, where `VISUAL` is not set."),
    ("PGPASSWORD", "The password for `memory.store = \"postgres://…\"`, where the URL has none."),
    (
        "AWS_",
        "All that begin so: credentials and settings for `spool.url = \"s3://…\"`, by the names that \
         every client of S3 knows (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, \
         `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`).",
    ),
    (
        "GOOGLE_",
        "The same for `gs://…` (`GOOGLE_SERVICE_ACCOUNT`, `GOOGLE_APPLICATION_CREDENTIALS`).",
    ),
    (
        "AZURE_",
        "The same for `az://…` (`AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`, \
         `AZURE_STORAGE_SAS_TOKEN`).",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "A collector that gets traces of `atlatl serve --http`: the address without `/v1/traces`. \
         Where neither this nor the next is set, nothing is traced.",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "The same for traces alone: the whole address."),
    (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "Other than `http/protobuf`: no traces are sent, and that is said.",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "The same for traces alone."),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Headers for the collector, as `name=value,…`; keys go here, and are never shown. With them a \
         collector at `http://` beyond this machine gets no traces.",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "The same for traces alone."),
    ("OTEL_TRACES_EXPORTER", "Other than `otlp`: no traces."),
    ("OTEL_SDK_DISABLED", "`true`: no traces."),
    ("OTEL_SERVICE_NAME", "What the collector calls this server [`atlatl`]."),
    ("OTEL_RESOURCE_ATTRIBUTES", "What else it says of it: `name=value,…`."),
    ("OPENAI_API_KEY", "The key for `memory.embedder = \"openai:…\"`. It is never shown."),
];

/// What the libraries below read.
const LIBRARIES: &[(&str, &str)] = &[
    (
        "TMPDIR",
        "The temporary directory, the default of `prompt.offload.output_dir` [`/tmp`]. A client may \
         start its servers without it.",
    ),
    (
        "OTEL_TRACES_SAMPLER",
        "Which requests are traced, with `OTEL_TRACES_SAMPLER_ARG` [`parentbased_always_on`].",
    ),
    (
        "OTEL_BSP_…",
        "How spans are sent in batches: `OTEL_BSP_SCHEDULE_DELAY`, \
         `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.",
    ),
    ("NO_COLOR", "Set to anything: no colours."),
    ("CLICOLOR", "`0`: no colours."),
    ("CLICOLOR_FORCE", "Other than `0`: colours also where the output is no terminal."),
    (
        "HTTPS_PROXY",
        "A web proxy for `atlatl proxy --url`; not for servers on this machine, not for logins, not \
         for embedders.",
    ),
    ("ALL_PROXY", "The same, where `HTTPS_PROXY` is not set."),
    ("NO_PROXY", "Hosts that are reached without it."),
    ("SSL_CERT_FILE", "A file of certificates to trust in place of the system's."),
    ("SSL_CERT_DIR", "The same, as a directory."),
];

const BEGINNING: &str = "\
# Environment

The variables that the program reads. An `ATLATL_` variable with an unknown name is an error, so that a
typing mistake does not go unseen.

`${NAME}` in `proxy.headers` and `--header` is replaced by that environment variable. A wrapped server gets the
environment that the proxy got; a query worker gets an empty one.

## Surroundings

In brackets what applies where a variable is not set.
";

const KEYS: &str = "\
## Configuration

Each key has a variable, above all files and below `--set`. What a key takes and what it means is in the
[configuration reference](configuration.md).
";

/// The whole page.
pub(super) fn reference(repository: &Repository, atlatl: &Atlatl) -> Result<String> {
    same("environment variables", &names(OURS), &read(repository)?)?;
    let mut text = format!("{BEGINNING}\n| variable | meaning |\n|---|---|\n");
    for (name, meaning) in OURS.iter().chain(LIBRARIES) {
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    let _ = write!(text, "\n{KEYS}\n| variable | key | default |\n|---|---|---|\n");
    let configuration = atlatl.stdout(&["config", "reference"])?;
    for (variable, key, default) in keys(&configuration) {
        let _ = writeln!(text, "| {variable} | {key} | {default} |");
    }
    Ok(text)
}

fn names(table: &[(&str, &str)]) -> BTreeSet<String> {
    table.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The names in the files that ask for a variable: few enough to be told by their capitals.
fn read(repository: &Repository) -> Result<BTreeSet<String>> {
    let capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut found = BTreeSet::new();
    for source in sources(repository)? {
        if source.code.contains("env::var") {
            found.extend(literals(&source.code, capitals));
        }
        // Elsewhere they are asked for by a function of ours, each by its name.
        for asked in source.code.split("variable(").skip(1) {
            let name = asked.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            found.extend(
                name.map(|(name, _)| name.to_owned()).filter(|name| name.chars().all(capitals)),
            );
        }
    }
    Ok(found)
}

/// Variable, key and default of each row of the configuration reference.
fn keys(configuration: &str) -> Vec<(String, String, String)> {
    let document = Document::parse(configuration);
    let rows = document.table_rows().filter_map(|(_, cells)| match cells[..] {
        [key, _, default, variable, ..] if variable.starts_with("`ATLATL_") => {
            Some((variable.to_owned(), key.to_owned(), default.to_owned()))
        }
        _ => None,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_the_program_reads() {
        let repository = Repository::open().unwrap();
        assert_eq!(names(OURS), read(&repository).unwrap());
    }

    #[test]
    fn rows_of_keys_are_told_from_their_head() {
        let text = "| key | takes | default | environment variable | meaning | project file | read by |\n\
                    |---|---|---|---|---|---|---|\n\
                    | `a.b` | text | `\"\"` | `ATLATL_A__B` | A. | yes | `proxy` |\n";
        let expected = ("`ATLATL_A__B`".to_owned(), "`a.b`".to_owned(), "`\"\"`".to_owned());
        assert_eq!(keys(text), [expected]);
    }
}
