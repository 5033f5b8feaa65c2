//! Runs the browser of `atlatl-browse` on a terminal: the event loop, and the SQL queries of the
//! user.

mod export_file;
pub(super) mod terminal;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atlatl_browse::{
    ColorMode, HeaderInfo, RowKind, Screen, ScreenCommand, SqlRequest, SqlRows, draw,
};
use lro::{IdSeed, Spools};
use lro_core::config::Config;
use lro_query::Cancel;
use lro_spool::{Address, Spool, StoredResult};
use ratatui::crossterm::event;

use self::export_file::TempExportFile;
use self::terminal::{PendingSignals, TerminalGuard};
use super::entry::ResultEntry;
use crate::command::results::stored_rows::{source, sql_rows};
use crate::error::{Error, Status};
use crate::output::{counted, expiry, size};

/// The poll timeout without input. Signals, the window size and the remaining lifetime of the
/// result are checked this often.
const IDLE_POLL_TIMEOUT: Duration = Duration::from_millis(200);
/// The poll timeout while a query runs.
const QUERY_POLL_TIMEOUT: Duration = Duration::from_millis(30);
/// The interval at which the progress of background work is drawn.
const PROGRESS_REDRAW_INTERVAL: Duration = Duration::from_millis(60);
/// The maximum number of keys between two draws: a key may be held down.
const MAX_KEYS_PER_FRAME: usize = 64;

/// Shows a result until the user quits, the terminal closes or a signal arrives.
pub(super) fn run(
    stored: Box<dyn StoredResult>,
    entry: &ResultEntry,
    mut runner: QueryRunner,
    colours: bool,
) -> Result<Status, Error> {
    let look = if colours { ColorMode::Colour } else { ColorMode::Plain };
    let signals = PendingSignals::watch()?;
    let mut terminal = TerminalGuard::acquire()?;
    let outcome = show_result(stored, entry, &mut runner, look, &mut terminal, &signals);
    // Restore the terminal before printing anything and before a signal ends the process.
    drop(terminal);
    // Cancels a running query.
    drop(runner);
    // A closed terminal cannot show the error.
    if !terminal::poll_closed(Duration::ZERO) {
        outcome?;
    }
    signals.raise();
    Ok(Status::Success)
}

/// Shows a result until the user quits, the terminal closes or a signal arrives, without leaving the
/// terminal.
pub(super) fn show_result(
    stored: Box<dyn StoredResult>,
    entry: &ResultEntry,
    runner: &mut QueryRunner,
    look: ColorMode,
    terminal: &mut TerminalGuard,
    signals: &PendingSignals,
) -> Result<(), Error> {
    let (source, begin, content) = source(stored)?;
    let mut screen = Screen::new(source, begin, content, about(entry), look);
    show(&mut screen, terminal, entry, runner, signals)
}

fn about(entry: &ResultEntry) -> HeaderInfo {
    let holds = match entry.records {
        Some(records) => counted(records as u64, "record", "records"),
        None => entry.content_summary(),
    };
    HeaderInfo {
        reference: entry.reference.clone(),
        tool: entry.title().to_owned(),
        holds,
        size: size(entry.bytes),
        expires: expires(entry),
    }
}

fn expires(entry: &ResultEntry) -> String {
    let now = IdSeed::from_system().now;
    let verb = if entry.expires_at > now { "expires" } else { "expired" };
    format!("{verb} {}", expiry(entry.expires_at, now))
}

fn show(
    screen: &mut Screen,
    terminal: &mut TerminalGuard,
    entry: &ResultEntry,
    runner: &mut QueryRunner,
    signals: &PendingSignals,
) -> Result<(), Error> {
    let (mut last_draw, mut dirty) = (None::<Instant>, true);
    loop {
        if signals.is_pending() {
            return Ok(());
        }
        if let Some((width, height)) = terminal.resized()? {
            screen.resize(width, height);
            dirty = true;
        }
        if screen.is_busy() {
            // Completion is drawn at once, progress at intervals.
            dirty = !screen.work()
                || last_draw
                    .is_none_or(|last_draw| last_draw.elapsed() >= PROGRESS_REDRAW_INTERVAL)
                || dirty;
        }
        if let Some(answer) = runner.poll_answer() {
            screen.answered(answer);
            dirty = true;
        }
        dirty = screen.expires(&expires(entry)) || dirty;
        if dirty {
            terminal.draw(|frame| draw(screen, frame))?;
            (last_draw, dirty) = (Some(Instant::now()), false);
        }
        let mut timeout = match (screen.is_busy(), screen.is_asking()) {
            (true, _) => Duration::ZERO,
            (false, true) => QUERY_POLL_TIMEOUT,
            (false, false) => IDLE_POLL_TIMEOUT,
        };
        for _ in 0..MAX_KEYS_PER_FRAME {
            // `event::poll` does not return if the terminal has closed.
            if terminal::poll_closed(timeout) {
                return Ok(());
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
            timeout = Duration::ZERO;
            let Some(key) = terminal::key_press(&event::read()?) else { continue };
            dirty = true;
            match screen.update(key) {
                Some(ScreenCommand::Quit) => return Ok(()),
                Some(ScreenCommand::Ask(ask)) => runner.start(ask),
                Some(ScreenCommand::Cancel) => runner.cancel(),
                Some(ScreenCommand::Copy(text)) => terminal.copy(&text)?,
                Some(ScreenCommand::Export(path)) => match TempExportFile::create(&path) {
                    Ok(file) => screen.begin_export(Box::new(file), &path),
                    Err(error) => {
                        screen.export_failed(&format!("cannot create {path}: {error}"));
                    }
                },
                None => {}
            }
        }
    }
}

/// The output limit of a query that returns only row numbers, about two million of them.
const MAX_ROW_NUMBERS_BYTES: u64 = 32 << 20;

/// Runs the SQL queries of the user in the sandboxed worker, one at a time.
pub(super) struct QueryRunner {
    store: Arc<dyn Spool>,
    address: Address,
    config: Config,
    running: Option<RunningQuery>,
}

/// A query that is running in a thread.
struct RunningQuery {
    cancel: Cancel,
    answer: Receiver<Result<SqlRows, String>>,
    thread: JoinHandle<()>,
}

impl QueryRunner {
    /// A runner for the result at `address` in `store`, with the configured limits.
    pub(super) fn new(store: Arc<dyn Spool>, address: Address, config: &Config) -> Self {
        Self { store, address, config: config.clone(), running: None }
    }

    /// Starts a query and cancels the previous one.
    fn start(&mut self, ask: SqlRequest) {
        self.cancel();
        let mut config = self.config.clone();
        if ask.rows == RowKind::Numbers {
            // Row numbers are not shown, and the records are not part of the output.
            config.query.output_bytes = config.query.output_bytes.max(MAX_ROW_NUMBERS_BYTES);
        }
        let (spools, address) = (Spools::new(vec![Arc::clone(&self.store)]), self.address.clone());
        let (cancel, (sender, answer)) = (Cancel::default(), channel());
        let cancelled = cancel.clone();
        let thread = thread::spawn(move || {
            // No time limit: the user can cancel.
            let rows = sql_rows(spools, address, &config, ask.statement, None, &cancelled);
            // After a cancellation there is no receiver.
            let _ = sender.send(rows);
        });
        self.running = Some(RunningQuery { cancel, answer, thread });
    }

    /// Cancels the running query.
    fn cancel(&mut self) {
        if let Some(RunningQuery { cancel, thread, .. }) = self.running.take() {
            cancel.cancel();
            // Takes some tens of milliseconds, and leaves no worker process behind.
            let _ = thread.join();
        }
    }

    /// The answer, if the query has finished.
    fn poll_answer(&mut self) -> Option<Result<SqlRows, String>> {
        let answer = match self.running.as_ref()?.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("cannot run the query".to_owned()),
        };
        self.running = None;
        Some(answer)
    }
}

impl Drop for QueryRunner {
    fn drop(&mut self) {
        self.cancel();
    }
}
