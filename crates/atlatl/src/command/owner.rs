//! Owner: who owns the schema of a team's database, as some commands need.

use atlatl_memory::Registry;

use crate::{error::Error, memory_config};

/// Shown below the help of every command that runs as the owner.
macro_rules! examples {
    ($($text:literal),* $(,)?) => {
        concat!(
            "A URL without a password gets that of $PGPASSWORD.\n\nExamples:\n",
            $($text),*
        )
    };
}
pub(crate) use examples;

/// As whom it is done.
#[derive(Debug, clap::Args)]
pub(crate) struct Owner {
    /// The database, with the user who owns the schema
    #[arg(long = "as", value_name = "URL")]
    url: String,
    /// Allow a database beyond this machine without
    /// encryption
    #[arg(long, verbatim_doc_comment)]
    allow_plain: bool,
}

impl Owner {
    /// Tenants and keys of that database.
    pub(crate) fn registry(&self) -> Result<Registry, Error> {
        let options =
            memory_config::options(&self.url, memory_config::plain_text(self.allow_plain))
                .map_err(|error| memory_config::wrong_url("--as", &error))?;
        Registry::open(&options).map_err(memory_config::of_database)
    }
}
