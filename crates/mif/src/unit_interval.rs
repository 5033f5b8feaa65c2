//! A number from 0 to 1: a confidence or a strength.

use crate::{
    error::{Form, MifError},
    fields::{Located, Part},
    value::{Number, Value},
};

const EXPECTED: &str = "a number from 0 to 1";

/// A number from 0 to 1 that keeps all the digits it came with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnitInterval(Number);

impl UnitInterval {
    /// Returns the number, or nothing if it is not from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        Number::from_f64(value).and_then(Self::from_number)
    }

    /// Returns the value.
    pub fn get(&self) -> f64 {
        // The constructors let only finite numbers in.
        self.0.as_f64().unwrap_or_default()
    }

    fn from_number(number: Number) -> Option<Self> {
        let value = number.as_f64()?;
        (0.0..=1.0).contains(&value).then_some(Self(number))
    }
}

impl Part for UnitInterval {
    fn read(source: Located) -> Result<Self, MifError> {
        let number = source.number().map_err(|_| source.mismatch(EXPECTED))?;
        Self::from_number(number.clone()).ok_or_else(|| source.mismatch(EXPECTED))
    }

    fn write(&self, _: Form) -> Value {
        Value::Number(self.0.clone())
    }
}
