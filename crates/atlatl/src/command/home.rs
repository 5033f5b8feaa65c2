//! `atlatl` without a command, on a terminal: the latest results, the savings, and whether anything needs
//! attention.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use chrono::TimeDelta;
use lro::IdSeed;

use super::{doctor, results, stats};
use crate::error::{Error, Status};
use crate::output::Output;
use crate::settings::{Settings, Sources};

/// The days of the savings.
const DAYS: i64 = 7;

/// Shows the screen until the user quits.
pub(crate) fn run(sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let directory = settings.surroundings().working_dir.as_deref();
    let title = title(directory, sources.home());
    let mut summary = Summary::start(sources);
    results::choose_from_list(&settings, &title, output, move || summary.lines())
}

fn title(directory: Option<&Path>, home: Option<&Path>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let Some(directory) = directory else { return format!("atlatl {version}") };
    let shown = match home.and_then(|home| directory.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => directory.display().to_string(),
    };
    format!("atlatl {version} \u{b7} results for {shown}")
}

/// A line of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Savings,
    Doctor,
}

/// The lines above the results, found in the background: a ledger can be long, and the checks ask disks.
struct Summary {
    savings: String,
    doctor: String,
    found: Receiver<(Line, String)>,
}

impl Summary {
    fn start(sources: &Sources) -> Self {
        let (sender, found) = channel();
        let (sources, to_savings, to_doctor) = (sources.clone(), sender.clone(), sender);
        let of_savings = sources.clone();
        thread::spawn(move || {
            // After the user quit there is no receiver.
            let _ = to_savings.send((Line::Savings, savings(&of_savings)));
        });
        thread::spawn(move || {
            let _ = to_doctor.send((Line::Doctor, doctor::headline(&sources)));
        });
        let pending = "\u{2026}".to_owned();
        Self { savings: pending.clone(), doctor: pending, found }
    }

    fn lines(&mut self) -> Vec<String> {
        while let Ok((line, text)) = self.found.try_recv() {
            match line {
                Line::Savings => self.savings = text,
                Line::Doctor => self.doctor = text,
            }
        }
        vec![format!("Saved   {}", self.savings), format!("Doctor  {}", self.doctor)]
    }
}

fn savings(sources: &Sources) -> String {
    let since = IdSeed::from_system().now.checked_sub_signed(TimeDelta::days(DAYS));
    // Prints nothing: the screen is drawn.
    let time = format!("in {DAYS} days");
    let found = || stats::headline(&Settings::read(sources)?, since, &time);
    match found() {
        Ok(Some(text)) => format!("{text}; see atlatl stats"),
        Ok(None) => format!("nothing in the last {DAYS} days"),
        Err(error) => {
            let first = error.reports().first().map(|report| report.message.clone());
            first.unwrap_or_else(|| "unknown".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_names_the_directory_as_people_write_it() {
        let title = |directory: Option<&str>| {
            title(directory.map(Path::new), Some(Path::new("/home/u")))
                .split_once(" \u{b7} ")
                .map(|(_, text)| text.to_owned())
        };
        assert_eq!(title(Some("/home/u/p")).as_deref(), Some("results for ~/p"));
        assert_eq!(title(Some("/home/u")).as_deref(), Some("results for ~"));
        assert_eq!(title(Some("/srv")).as_deref(), Some("results for /srv"));
        assert_eq!(title(None), None);
    }
}
