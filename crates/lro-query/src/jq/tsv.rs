//! Formats an array as one line of a table.

use jaq_core::Error;
use jaq_core::native::{Fun, bome, run, v};
use jaq_json::{Val, ValR};

use super::compile::Kind;
use super::number;

pub(super) fn natives() -> impl Iterator<Item = Fun<Kind>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<Kind>>; 2] = [
        ("@tsv", v(0), |cv| bome(row(&cv.1, b'\t', tsv))),
        ("@csv", v(0), |cv| bome(row(&cv.1, b',', csv))),
    ];
    all.into_iter().map(run::<Kind>)
}

fn row(value: &Val, between: u8, string: fn(&mut Vec<u8>, &[u8])) -> ValR {
    let Val::Arr(cells) = value else {
        return Err(Error::typ(value.clone(), "array"));
    };
    let mut out = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            out.push(between);
        }
        match cell {
            Val::Null => {}
            Val::Bool(true) => out.extend_from_slice(b"true"),
            Val::Bool(false) => out.extend_from_slice(b"false"),
            Val::Num(n) => number::write(&mut out, n),
            Val::TStr(text) | Val::BStr(text) => string(&mut out, text),
            Val::Arr(_) | Val::Obj(_) => {
                return Err(Error::typ(cell.clone(), "a cell of a table"));
            }
        }
    }
    Ok(Val::utf8_str(out))
}

fn tsv(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            other => out.push(*other),
        }
    }
}

fn csv(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
