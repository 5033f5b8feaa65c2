//! Opaque, signed pagination cursors.
//!
//! A cursor is stateless: any process that shares the store can continue from it. It is signed, and
//! bound to the arguments of its call: with other arguments it is rejected.

use atlatl_memory::{ListPosition, RankPosition};
use chrono::{DateTime, TimeDelta, Utc};
use mif::MemoryId;
use serde::{Deserialize, Serialize};

use crate::signing::Signer;
use crate::tools::arguments::ArgumentError;

const PURPOSE: &str = "cursor";
/// How long a cursor is valid.
const CURSOR_TTL: TimeDelta = TimeDelta::hours(24);

/// A position in a listing or a ranking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CursorPosition {
    Listing(ListPosition),
    Ranking {
        position: RankPosition,
        /// The time of the first page. Decay must not change scores between pages.
        now: DateTime<Utc>,
    },
}

#[derive(Serialize, Deserialize)]
struct CursorPayload {
    /// The digest of the call's arguments.
    q: String,
    /// The expiry time, in seconds since 1970.
    x: i64,
    id: String,
    /// The value of a listing's sort column.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    at: Option<i64>,
    /// The bits of a score, and the time of the first page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rank: Option<(u64, i64)>,
}

/// Encodes `position` in the results of `question`.
pub(crate) fn write(
    signer: &Signer,
    question: &str,
    position: &CursorPosition,
    now: DateTime<Utc>,
) -> String {
    let (id, at, rank) = match position {
        CursorPosition::Listing(ListPosition { at, id }) => (id, Some(*at), None),
        CursorPosition::Ranking { position, now } => {
            (&position.id, None, Some((position.score.to_bits(), now.timestamp_micros())))
        }
    };
    let payload = CursorPayload {
        q: signer.digest(question),
        x: (now + CURSOR_TTL).timestamp(),
        id: id.as_str().to_owned(),
        at,
        rank,
    };
    let json = serde_json::to_string(&payload).unwrap_or_default();
    signer.sign_token(PURPOSE, &json)
}

/// Decodes a cursor that came with `question`.
pub(crate) fn read(
    signer: &Signer,
    question: &str,
    cursor: &str,
    now: DateTime<Utc>,
) -> Result<CursorPosition, ArgumentError> {
    let invalid =
        |message: &str| ArgumentError::new(message, "Omit cursor to start with the first page.");
    let json = signer
        .verify_token(PURPOSE, cursor)
        .ok_or_else(|| invalid("the cursor was not issued by this server"))?;
    let payload: CursorPayload =
        serde_json::from_str(&json).map_err(|_| invalid("invalid cursor"))?;
    if payload.q != signer.digest(question) {
        return Err(invalid("the cursor belongs to a call with other arguments"));
    }
    if now.timestamp() >= payload.x {
        return Err(invalid("the cursor has expired"));
    }
    let id: MemoryId = payload.id.parse().map_err(|_| invalid("invalid cursor"))?;
    match (payload.at, payload.rank) {
        (Some(at), None) => Ok(CursorPosition::Listing(ListPosition { at, id })),
        (None, Some((bits, micros))) => Ok(CursorPosition::Ranking {
            position: RankPosition { score: f64::from_bits(bits), id },
            now: DateTime::from_timestamp_micros(micros)
                .ok_or_else(|| invalid("invalid cursor"))?,
        }),
        _ => Err(invalid("invalid cursor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_with_its_question_for_a_day() {
        let signer = Signer::new([1; 32]);
        let now: DateTime<Utc> = "2026-11-15T10:00:00Z".parse().expect("a time");
        let id = MemoryId::from_u128(7);
        let positions = [
            CursorPosition::Listing(ListPosition { at: -5, id: id.clone() }),
            CursorPosition::Ranking { position: RankPosition { score: 0.1 + 0.2, id }, now },
        ];
        for position in positions {
            let cursor = write(&signer, "{}", &position, now);
            assert_eq!(read(&signer, "{}", &cursor, now).as_ref(), Ok(&position));
            let later = now + CURSOR_TTL;
            assert!(
                read(&signer, "{}", &cursor, later).is_err_and(|e| e.message.contains("expired"))
            );
            let other = read(&signer, r#"{"tags":["x"]}"#, &cursor, now);
            assert!(other.is_err_and(|e| e.message.contains("other arguments")));
            assert!(read(&Signer::new([2; 32]), "{}", &cursor, now).is_err());
        }
    }
}
