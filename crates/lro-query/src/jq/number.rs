//! Number: numbers that keep their spelling.

use std::io::Write as _;

use jaq_json::{Num, Rc};

/// Reads a number. What neither an integer nor a double spells the same way stays as it is written,
/// until a filter computes with it.
pub(super) fn parse(lexeme: &str) -> Option<Num> {
    let digits = lexeme.strip_prefix('-').unwrap_or(lexeme);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let well_formed = digits == "0" || (!digits.is_empty() && !digits.starts_with('0'));
        if !well_formed {
            return None;
        }
        return match lexeme.parse::<isize>() {
            Ok(0) if lexeme.len() > 1 => Some(as_written(lexeme)),
            Ok(int) => Some(Num::Int(int)),
            Err(_) => Num::from_str_radix(lexeme, 10),
        };
    }
    if !is_decimal(digits) {
        return None;
    }
    let float: f64 = lexeme.parse().ok()?;
    let mut spelt = Spelt::default();
    spelt.float(float);
    Some(if spelt.as_bytes() == lexeme.as_bytes() { Num::Float(float) } else { as_written(lexeme) })
}

fn as_written(lexeme: &str) -> Num {
    Num::Dec(Rc::new(lexeme.to_owned()))
}

/// RFC 8259 without the sign: Rust would also read `1.`, `.5` and `inf`.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent.is_none_or(|e| all_digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

/// Below this every whole double is written as an integer, as jq does.
const WHOLE: f64 = 1e17;
/// Below this a double is written with an exponent.
const SMALL: f64 = 1e-5;

/// Room for any number as it is written here.
#[derive(Default)]
struct Spelt {
    bytes: [u8; 32],
    length: usize,
}

impl Spelt {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn float(&mut self, float: f64) {
        let size = float.abs();
        let mut room = &mut self.bytes[..];
        // The shortest digits that give the same double, 17 at most, with sign, point and exponent.
        let written = if size == 0.0 || (SMALL..WHOLE).contains(&size) {
            write!(room, "{float}")
        } else {
            write!(room, "{float:e}")
        };
        written.expect("a double has at most 24 characters");
        self.length = 32 - room.len();
    }
}

/// Writes a number as JSON: NaN as null and infinities as the largest doubles, as jq does.
pub(super) fn write(out: &mut Vec<u8>, number: &Num) {
    match number {
        Num::Float(float) if float.is_nan() => out.extend_from_slice(b"null"),
        Num::Float(float) => {
            let mut spelt = Spelt::default();
            spelt.float(float.clamp(f64::MIN, f64::MAX));
            out.extend_from_slice(spelt.as_bytes());
        }
        // Writing to memory cannot fail.
        other => {
            let _ = write!(out, "{other}");
        }
    }
}
