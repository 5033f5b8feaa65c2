//! `atlatl results path`.

use lro::Moment;
use lro_spool::Spool as _;

use super::{Which, missing};
use crate::{
    error::{Error, Status},
    output::Output,
    settings::Settings,
    spool_config::Stores,
};

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = Moment::of_system().now;
    let stores = Stores::from_settings(settings, args.which.scope.as_deref())?;
    let address = args.which.address()?;
    let path = stores
        .find(&address, args.which.reach(), |store| {
            Ok(store.open(&address, now)?.path().map(ToOwned::to_owned))
        })
        .map_err(missing)?
        .ok_or_else(|| Error::failure(format!("{address} has no path")))?;
    // Plain in a pipe as well, for `"$(atlatl results path …)"`.
    output.bytes(path.as_os_str().as_encoded_bytes())?;
    output.bytes(b"\n")?;
    Ok(Status::Success)
}
