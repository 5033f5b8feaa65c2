//! Setpath: jq's `setpath`, which makes what is missing on its way; jaq's does not.

use jaq_core::Error;
use jaq_core::native::{Fun, bome, run, v};
use jaq_json::{Map, Num, Rc, Val, ValR};

use super::compile::Kind;

pub(super) fn natives() -> impl Iterator<Item = Fun<Kind>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<Kind>>; 1] =
        [("setpath", v(2), |mut cv| {
            let (value, path) = (cv.0.pop_var(), cv.0.pop_var());
            bome(match &path {
                Val::Arr(steps) => set(cv.1, steps, value),
                _ => Err(Error::typ(path, "array")),
            })
        })];
    all.into_iter().map(run::<Kind>)
}

/// An array with a hole of this size is a mistake.
const HOLE: usize = 1 << 20;

fn set(target: Val, path: &[Val], value: Val) -> ValR {
    let Some((step, rest)) = path.split_first() else { return Ok(value) };
    match (target, step) {
        (Val::Null, Val::TStr(_)) => set(Val::obj(Map::default()), path, value),
        (Val::Obj(mut members), Val::TStr(_)) => {
            let all = Rc::make_mut(&mut members);
            let old = all.get_mut(step).map(std::mem::take).unwrap_or_default();
            let new = set(old, rest, value)?;
            all.insert(step.clone(), new);
            Ok(Val::Obj(members))
        }
        (Val::Null, Val::Num(_)) => set(Val::Arr(Rc::default()), path, value),
        (Val::Arr(mut items), Val::Num(Num::Int(at))) => {
            let all = Rc::make_mut(&mut items);
            let index =
                if *at < 0 { all.len().checked_add_signed(*at) } else { Some(at.unsigned_abs()) };
            let index = index.filter(|index| *index < all.len() + HOLE);
            let Some(index) = index else {
                return Err(Error::str("an index is out of bounds"));
            };
            if index >= all.len() {
                all.resize(index + 1, Val::Null);
            }
            let old = std::mem::take(&mut all[index]);
            all[index] = set(old, rest, value)?;
            Ok(Val::Arr(items))
        }
        (target, step) => Err(Error::index(target, step.clone())),
    }
}
