//! Asker: statements of a person who browses, each in its bounded worker, one at a time.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError, channel},
    },
    thread::{self, JoinHandle},
};

use atlatl_browse::{Answer, Ask, Rows};
use lro::{Extractor, Moment, Question, Spools, Values, Wanted};
use lro_core::{NoTokenizer, Tokens, config::Config};
use lro_query::{Cancel, Page, Total, worker::Program};
use lro_spool::{Address, Spool};

use crate::{command::extract::hint, output::grouped};

/// What an answer of nothing but numbers may come to: two million of them.
const NUMBERS_BYTES: u64 = 32 << 20;

/// Asks a stored result.
pub(in crate::command::results) struct Asker {
    store: Arc<dyn Spool>,
    address: Address,
    config: Config,
    running: Option<Running>,
}

/// A question that is being answered.
struct Running {
    cancel: Cancel,
    answer: Receiver<Result<Answer, String>>,
    thread: JoinHandle<()>,
}

impl Asker {
    /// Asks the result at `address` in `store`, within the configured bounds.
    pub(in crate::command::results) fn new(
        store: Arc<dyn Spool>,
        address: Address,
        config: &Config,
    ) -> Self {
        Self { store, address, config: config.clone(), running: None }
    }

    /// Begins to ask; what was asked before is given up.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.cancel();
        let mut config = self.config.clone();
        if ask.rows == Rows::Numbers {
            // Nobody reads them, and the records they stand for are not in the answer.
            config.query.output_bytes = config.query.output_bytes.max(NUMBERS_BYTES);
        }
        let (spools, address) = (Spools::new(vec![Arc::clone(&self.store)]), self.address.clone());
        let (cancel, (sender, answer)) = (Cancel::default(), channel());
        let cancelled = cancel.clone();
        let thread = thread::spawn(move || {
            // Whoever gave up does not listen any more.
            let _ = sender.send(answered(spools, address, &config, ask, &cancelled));
        });
        self.running = Some(Running { cancel, answer, thread });
    }

    /// Ends what is being asked.
    pub(super) fn cancel(&mut self) {
        if let Some(Running { cancel, thread, .. }) = self.running.take() {
            cancel.cancel();
            // Takes a few hundredths of a second, and leaves no worker behind.
            let _ = thread.join();
        }
    }

    /// The answer, once it is there.
    pub(super) fn answer(&mut self) -> Option<Result<Answer, String>> {
        let answer = match self.running.as_ref()?.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the question could not be asked".to_owned()),
        };
        self.running = None;
        Some(answer)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.cancel();
    }
}

fn answered(
    spools: Spools,
    address: Address,
    config: &Config,
    ask: Ask,
    cancel: &Cancel,
) -> Result<Answer, String> {
    let mut extractor =
        Extractor::new(spools, config).with_reply(Tokens(u64::MAX)).with_tokenizer(NoTokenizer);
    if let Some(program) = Program::itself() {
        extractor = extractor.with_program(program);
    }
    // The person cancels what takes too long.
    extractor = extractor.with_time_limit(None);
    let wanted = Wanted::Sql {
        statement: ask.statement,
        with: std::collections::BTreeMap::new(),
        params: Values::new(),
    };
    let page = Page { offset: 0, limit: u64::MAX };
    let question = Question { address, wanted, page };
    let now = Moment::of_system().now;
    let reply = extractor
        .extract(&question, now, cancel)
        .map_err(|error| format!("{error}. {}", hint(&error)))?;
    let more = (reply.total != Total::Exactly(reply.given)).then(|| match reply.total {
        Total::Exactly(number) => grouped(number),
        other @ Total::AtLeast(_) => other.to_string(),
    });
    Ok(Answer { lines: reply.body.into_bytes(), more })
}
