//! The states of the scanner.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// A value must come.
    Value,
    /// Right after `[`.
    ValueOrClose,
    /// Right after `{`.
    KeyOrClose,
    /// After a comma in an object.
    Key,
    Colon,
    CommaOrClose,
    /// After a whole root value: another may follow on a later line.
    Between {
        line_break: bool,
    },
    Text(Role),
    Escape(Role),
    Hex(Role, u8),
    Number(Digits),
    /// The number of bytes of the word that matched so far.
    Literal(Word, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    True,
    False,
    Null,
}

impl Word {
    #[inline]
    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

/// The part of a number that was read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// The part of an unfinished string that was in earlier chunks.
pub(super) enum Carried {
    Nothing,
    Text(Vec<u8>),
    TooLong,
}

impl Carried {
    #[inline]
    pub(super) fn lexeme(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::TooLong => None,
        }
    }
}
