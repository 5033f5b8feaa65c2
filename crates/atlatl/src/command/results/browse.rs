//! A stored result on a terminal: the screen of `atlatl-browse`, its keys and its questions.

mod asker;
mod keys;
mod terminal;

use std::{
    io,
    time::{Duration, Instant},
};

use atlatl_browse::{About, Content, Effect, Look, Screen, Source, draw};
use lro::Moment;
use lro_spool::{StoredForm, StoredResult, records_begin};
use ratatui::crossterm::event;

pub(super) use self::asker::Asker;
use self::terminal::{Interrupts, SpillBuffer};
use super::entry::Entry;
use crate::{
    error::{Error, Status, with_causes},
    output::{counted, distance, size},
};

/// How long nothing is looked at while nobody presses a key: signals, the size of the window and
/// the time until a result expires can wait so long.
const IDLE: Duration = Duration::from_millis(200);
/// The same while an answer is waited for.
const WAITING: Duration = Duration::from_millis(30);
/// How often work that goes on is shown.
const EVERY: Duration = Duration::from_millis(60);
/// Keys that are taken before the screen is drawn: someone may hold one down.
const KEYS: usize = 64;
/// A document up to this size is spread over lines; a larger one is shown as it lies.
const DOCUMENT_BYTES: u64 = 4 << 20;

/// The bytes of a stored result. It stays readable while it is open, expired or not.
struct Stored(Box<dyn StoredResult>);

impl Source for Stored {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(at, buf).map_err(|error| io::Error::other(with_causes(&error)))
    }
}

/// Shows it until somebody has seen enough.
pub(super) fn run(
    stored: Box<dyn StoredResult>,
    entry: &Entry,
    mut asker: Asker,
    colours: bool,
) -> Result<Status, Error> {
    let look = if colours { Look::Colour } else { Look::Plain };
    let (source, begin, content) = source(stored)?;
    let mut screen = Screen::new(source, begin, content, about(entry), look);
    let interrupts = Interrupts::watched()?;
    let mut terminal = SpillBuffer::taken()?;
    let ended = show(&mut screen, &mut terminal, entry, &mut asker, &interrupts);
    // Given back before anything else is printed, and before a signal does what it came for.
    drop(terminal);
    // A question that is being answered ends with whoever asked it.
    drop(asker);
    // Nobody is left to tell of what could not be drawn on a terminal that has gone.
    if !terminal::is_gone(Duration::ZERO) {
        ended?;
    }
    interrupts.obey();
    Ok(Status::Success)
}

/// The lines to show, and what they are.
fn source(stored: Box<dyn StoredResult>) -> Result<(Box<dyn Source>, u64, Content), Error> {
    let form = stored.listed().sidecar.content;
    if form.has_records() {
        let begin = records_begin(&*stored)?;
        return Ok((Box::new(Stored(stored)), begin, Content::Records));
    }
    if form == StoredForm::Document && stored.len() <= DOCUMENT_BYTES {
        let mut text = Vec::new();
        lro_spool::original(&*stored, &mut text)
            .map_err(|error| Error::failure(with_causes(&error)))?;
        if let Some(spread) = str::from_utf8(&text).ok().and_then(atlatl_browse::spread) {
            return Ok((Box::new(spread.into_bytes()), 0, Content::Text));
        }
    }
    Ok((Box::new(Stored(stored)), 0, Content::Text))
}

fn about(entry: &Entry) -> About {
    let holds = match entry.records {
        Some(records) => counted(records as u64, "record", "records"),
        None => entry.holds(),
    };
    About {
        reference: entry.reference.clone(),
        tool: entry.title().to_owned(),
        holds,
        size: size(entry.bytes),
        expires: expires(entry),
    }
}

fn expires(entry: &Entry) -> String {
    let now = Moment::of_system().now;
    let verb = if entry.expires_at > now { "expires" } else { "expired" };
    format!("{verb} {}", distance(entry.expires_at, now))
}

fn show(
    screen: &mut Screen,
    terminal: &mut SpillBuffer,
    entry: &Entry,
    asker: &mut Asker,
    interrupts: &Interrupts,
) -> Result<(), Error> {
    let (mut drawn, mut news) = (None::<Instant>, true);
    loop {
        if interrupts.came() {
            return Ok(());
        }
        if let Some((width, height)) = terminal.resized()? {
            screen.resize(width, height);
            news = true;
        }
        if screen.is_busy() {
            // The last piece is shown at once, the others now and then.
            news = !screen.work() || drawn.is_none_or(|drawn| drawn.elapsed() >= EVERY) || news;
        }
        if let Some(answer) = asker.answer() {
            screen.answered(answer);
            news = true;
        }
        news = screen.expires(&expires(entry)) || news;
        if news {
            terminal.draw(|frame| draw(screen, frame))?;
            (drawn, news) = (Some(Instant::now()), false);
        }
        let mut patience = match (screen.is_busy(), screen.is_asking()) {
            (true, _) => Duration::ZERO,
            (false, true) => WAITING,
            (false, false) => IDLE,
        };
        for _ in 0..KEYS {
            // What waits below does not end where the terminal has gone.
            if terminal::is_gone(patience) {
                return Ok(());
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
            patience = Duration::ZERO;
            let Some(key) = keys::key(&event::read()?) else { continue };
            news = true;
            match screen.update(key) {
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Ask(ask)) => asker.ask(ask),
                Some(Effect::Cancel) => asker.cancel(),
                None => {}
            }
        }
    }
}
