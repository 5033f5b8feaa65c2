//! Key: what a person pressed.

/// A key, as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// A character.
    Char(char),
    /// A character with Ctrl held down.
    Ctrl(char),
    /// Up.
    Up,
    /// Down.
    Down,
    /// Left.
    Left,
    /// Right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Removes what stands before the cursor.
    Backspace,
    /// Removes what stands behind the cursor.
    Delete,
}
