//! Amount: a number of tokens, and how much of it is certain.

use std::ops::AddAssign;

use lro_core::tokens::{Estimate, Method};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Tokens, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Amount {
    /// Those that were counted.
    pub measured: u64,
    /// Those that were estimated.
    pub estimated: u64,
}

/// How certain a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all, some or none of it was counted")]
pub enum Basis {
    /// All of it was counted.
    Measured,
    /// Some of it was counted.
    PartlyEstimated,
    /// None of it was counted.
    Estimated,
}

impl Amount {
    /// All of it.
    pub fn tokens(self) -> u64 {
        self.measured + self.estimated
    }

    /// How certain it is; nothing at all is certain.
    pub fn basis(self) -> Basis {
        match (self.measured, self.estimated) {
            (_, 0) => Basis::Measured,
            (0, _) => Basis::Estimated,
            _ => Basis::PartlyEstimated,
        }
    }
}

impl Basis {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::PartlyEstimated => "partly estimated",
            Self::Estimated => "estimated",
        }
    }
}

impl AddAssign<Estimate> for Amount {
    fn add_assign(&mut self, more: Estimate) {
        if more.method == Method::Counted {
            self.measured += more.tokens.0;
        } else {
            self.estimated += more.tokens.0;
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.measured += more.measured;
        self.estimated += more.estimated;
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut amount = serializer.serialize_struct("Amount", 3)?;
        amount.serialize_field("tokens", &self.tokens())?;
        amount.serialize_field("basis", self.basis().as_str())?;
        amount.serialize_field("estimated", &self.estimated)?;
        amount.end()
    }
}
