//! Route: which of several open streams a message of a process belongs on.

use std::collections::{HashMap, VecDeque};

use lro_wire::IdKey;
use tokio::sync::mpsc::Sender;

use super::body_writer::Outbound;
use super::id_map::{BelongsTo, Called};

/// What a server says unasked while nobody listens is kept so long.
const KEPT: usize = 256;
/// So many messages may wait for a client that does not read.
pub(super) const WAITING: usize = 1024;

/// A message, and whether it is the last one of its stream.
pub(super) struct Routed {
    pub(super) told: Outbound,
    pub(super) last: bool,
}

/// A stream that waits for an answer.
pub(super) struct Open {
    pub(super) to: Sender<Routed>,
    pub(super) called: Called,
    /// Which was opened first.
    order: u64,
}

impl Open {
    /// Sends a message. Who does not read loses what comes before the answer, and never the answer.
    pub(super) fn tell(&self, told: Outbound, last: bool) {
        if last || self.to.capacity() > WAITING / 2 {
            let _ = self.to.try_send(Routed { told, last });
        }
    }
}

/// The streams of one process.
#[derive(Default)]
pub(super) struct Routes {
    open: HashMap<IdKey, Open>,
    /// Under which token progress is told.
    tokens: HashMap<IdKey, IdKey>,
    /// The stream for what the server says unasked.
    unasked: Option<Sender<Routed>>,
    kept: VecDeque<Outbound>,
    opened: u64,
}

impl Routes {
    /// Opens a stream for the request that the server knows by `id`, and its progress by `token`.
    pub(super) fn open(
        &mut self,
        id: IdKey,
        token: Option<IdKey>,
        called: Called,
        to: Sender<Routed>,
    ) {
        self.opened += 1;
        if let Some(token) = token {
            self.tokens.insert(token, id.clone());
        }
        self.open.insert(id, Open { to, called, order: self.opened });
    }

    /// Opens the stream for what the server says unasked, and gives it what was kept.
    pub(super) fn listen(&mut self, to: Sender<Routed>) {
        for told in self.kept.drain(..) {
            let _ = to.try_send(Routed { told, last: false });
        }
        self.unasked = Some(to);
    }

    pub(super) fn is_open(&self, id: &IdKey) -> bool {
        self.open.contains_key(id)
    }

    /// Closes a stream; what it was called.
    pub(super) fn close(&mut self, id: &IdKey) -> Option<Open> {
        self.tokens.retain(|_, known| known != id);
        self.open.remove(id)
    }

    /// The stream of the request that a message says it belongs to.
    pub(super) fn of(&self, belongs_to: &BelongsTo) -> Option<(IdKey, &Open)> {
        let id = match belongs_to {
            BelongsTo::Request(id) => id,
            BelongsTo::Progress(token) => self.tokens.get(token)?,
        };
        self.open.get(id).map(|open| (id.clone(), open))
    }

    /// Sends what belongs to no request in particular: to the only one there is, where servers ask
    /// back, else to who listens, else to the first that waits, else it is kept.
    pub(super) fn unasked(&mut self, told: Outbound) {
        self.unasked = self.unasked.take().filter(|to| !to.is_closed());
        let first = self.open.values().min_by_key(|open| open.order);
        let listener = match (&self.unasked, first) {
            (_, Some(only)) if self.open.len() == 1 => return only.tell(told, false),
            (Some(listener), _) => listener,
            (None, Some(first)) => return first.tell(told, false),
            (None, None) => {
                if self.kept.len() == KEPT {
                    self.kept.pop_front();
                }
                self.kept.push_back(told);
                return;
            }
        };
        // Who does not read loses what was not asked for.
        let _ = listener.try_send(Routed { told, last: false });
    }

    /// Whether nobody waits and nobody listens.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.unasked.as_ref().is_none_or(Sender::is_closed)
    }
}
